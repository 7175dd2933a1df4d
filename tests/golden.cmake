# The whole output of one run, compared with the approved one.
#   cmake -DZPLAN=<binary> -DCONFIG=<configs/x.json> -DGOLDEN=<tests/golden/x.txt> -DACTUAL=<scratch> -P golden.cmake
# ZPLAN_BLESS=1 in the environment approves what is printed now.
cmake_minimum_required(VERSION 3.25)
get_filename_component(folder ${ACTUAL} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
set(ENV{XDG_CONFIG_HOME} ${folder})  # no profile of whoever runs the test
execute_process(COMMAND ${ZPLAN} plan ${CONFIG} OUTPUT_FILE ${ACTUAL} RESULT_VARIABLE code)
if(NOT code MATCHES "^[01]$")  # 1 is an answer too: nothing fits
  message(FATAL_ERROR "${ZPLAN} plan ${CONFIG} ended with ${code}")
endif()
if("$ENV{ZPLAN_BLESS}")
  get_filename_component(folder ${GOLDEN} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${ACTUAL} ${GOLDEN})
endif()
if(NOT EXISTS ${GOLDEN})
  message(FATAL_ERROR "${GOLDEN} is missing: read ${ACTUAL}, then approve it with ZPLAN_BLESS=1 ctest -R golden")
endif()
execute_process(COMMAND git --no-pager diff --no-index --exit-code ${GOLDEN} ${ACTUAL} COMMAND_ERROR_IS_FATAL ANY)
