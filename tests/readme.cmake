# The README shows what the main job prints: the approved output, and the line about the files it writes.
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/tests/golden/qwen3-8b-4xa100-40g.txt golden)
string(REGEX REPLACE "\nWritten [^\n]*\n" "\n" readme "${readme}")
string(FIND "${readme}" "${golden}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not show tests/golden/qwen3-8b-4xa100-40g.txt: copy it there")
endif()
