#include "io/oom_message.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "spec/error.h"

namespace zplan {
namespace {

constexpr const char* kStart = "out of memory. Tried to allocate ";
constexpr std::size_t kLongest = 4000;  // of one message

// One message, its white space made single blanks: terminals and logs break lines.
std::string flat(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!blank) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  return out;
}

// "3.86 GiB", as c10::CachingAllocator::format_size writes it: bytes, or two decimals of KiB, MiB or GiB.
std::optional<PrintedBytes> size_at(const std::string& text, std::size_t at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str() + at, &end);
  const std::string unit = std::string(end).substr(0, 6);
  double scale = 0;
  if (unit.rfind(" bytes", 0) == 0) scale = 1;
  else if (unit.rfind(" KiB", 0) == 0) scale = 1024.0;
  else if (unit.rfind(" MiB", 0) == 0) scale = 1024.0 * 1024;
  else if (unit.rfind(" GiB", 0) == 0) scale = 1024.0 * 1024 * 1024;
  if (scale == 0 || number > 1e9) return std::nullopt;
  // Half of the last digit, and a byte for the rounding here.
  const auto error = scale == 1 ? 0 : static_cast<std::int64_t>(std::ceil(0.005 * scale)) + 1;
  return PrintedBytes{Bytes{static_cast<std::int64_t>(std::llround(number * scale))}, Bytes{error}};
}

// The size right after, or right before, a phrase.
std::optional<PrintedBytes> after(const std::string& text, const std::string& phrase, std::size_t from = 0) {
  const auto at = text.find(phrase, from);
  return at == std::string::npos ? std::nullopt : size_at(text, at + phrase.size());
}
std::optional<PrintedBytes> before(const std::string& text, const std::string& phrase) {
  const auto at = text.find(phrase);
  if (at == std::string::npos || at < 4) return std::nullopt;
  const auto unit = text.rfind(' ', at - 1);
  if (unit == std::string::npos || unit == 0) return std::nullopt;
  const auto number = text.find_last_of(" (", unit - 1);
  return size_at(text, number == std::string::npos ? 0 : number + 1);
}
std::optional<Bytes> value(const std::optional<PrintedBytes>& p) {
  return p ? std::optional<Bytes>(p->value) : std::nullopt;
}

std::optional<std::int64_t> number_after(const std::string& text, const std::string& phrase) {
  const auto at = text.find(phrase);
  if (at == std::string::npos) return std::nullopt;
  const auto begin = at + phrase.size(), end = text.find_first_not_of("0123456789", begin);
  if (end == begin || begin >= text.size() || std::min(end, text.size()) - begin > 6) return std::nullopt;
  return std::stoll(text.substr(begin, end - begin));
}

// "[rank3]:" of torchrun, at the start of the message's own line.
std::optional<std::int64_t> rank_of_line(const std::string& text, std::size_t at) {
  const auto newline = text.rfind('\n', at);
  const auto begin = newline == std::string::npos ? 0 : newline + 1;
  return number_after(text.substr(begin, at - begin), "[rank");
}

// Of "Process 1958 has 4.55 GiB memory in use." for each process named so.
std::vector<Bytes> processes(const std::string& message) {
  std::vector<Bytes> out;
  for (std::size_t at = message.find("Process "); at != std::string::npos; at = message.find("Process ", at + 1)) {
    const auto has = message.find(" has ", at);
    if (has == std::string::npos || has > at + 20) continue;
    if (const auto size = size_at(message, has + 5)) out.push_back(size->value);
  }
  return out;
}

// In a container a process does not know its number outside, and is named like the others: it is the smallest of
// those that use as much as PyTorch has reserved.
void tell_apart(std::vector<Bytes> named, OomMessage& m) {
  std::sort(named.begin(), named.end());
  if (!m.process) {
    const auto own = std::lower_bound(named.begin(), named.end(), m.reserved());
    if (own != named.end()) {
      m.process = *own;
      named.erase(own);
    }
  }
  for (const Bytes b : named) m.others += b;
}

}  // namespace

OomMessage read_oom_message(const std::string& text, const std::string& where) {
  OomMessage m;
  const auto start = text.find(kStart);
  if (start == std::string::npos) {
    throw InputError(where, "there is no out-of-memory message of PyTorch in it",
                     "paste the line that says \"CUDA out of memory. Tried to allocate ...\"");
  }
  const auto next = text.find(kStart, start + 1);
  for (auto at = next; at != std::string::npos; at = text.find(kStart, at + 1)) ++m.messages;
  m.rank = rank_of_line(text, start);
  const std::string message = flat(text.substr(start, std::min(kLongest, next - start)));
  const auto tried = after(message, kStart);
  // Since 2.1; before: "(GPU 0; 7.79 GiB total capacity; 5.61 GiB already allocated; 12.44 MiB free; 5.68 GiB
  // reserved".
  const bool old = message.find(" already allocated;") != std::string::npos;
  const auto allocated = before(message, old ? " already allocated;" : " is allocated by PyTorch");
  const auto rest =
      before(message, old ? " reserved in total by PyTorch" : " is reserved by PyTorch but unallocated");
  if (!tried || !allocated || !rest) {
    throw InputError(
        where, "the out-of-memory message is not complete",
        "paste all of it: what was tried, what is allocated by PyTorch and what is reserved but unallocated");
  }
  m.tried = *tried;
  m.allocated = *allocated;
  m.unallocated = old ? std::max(Bytes{}, rest->value - allocated->value) : rest->value;
  m.gpu = number_after(message, "GPU ");
  m.total = value(old ? before(message, " total capacity;") : after(message, "total capacity of "));
  if (!m.total) m.total = value(after(message, "total capacty of "));  // so written in 2.1
  m.free = value(before(message, old ? " free;" : " is free"));
  m.process = value(after(message, "this process has "));
  tell_apart(processes(message), m);
  m.allowed = value(before(message, " allowed;"));
  return m;
}

}  // namespace zplan
