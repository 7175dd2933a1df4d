#include "cli/commands.h"
namespace zplan { void add_check(Program&) {} }
