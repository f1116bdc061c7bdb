# SPDX-License-Identifier: Apache-2.0
# Registers the suites of a GoogleTest program with ctest, each of which runs in one process; ctest
# includes this file when it starts.
#
#   gyre_add_suites(PROGRAM PREFIX [PROPERTY VALUE]…)
#
# A suite is called PREFIX and its name. Suites of many tests begin first, as they take longest.
function(gyre_add_suites program prefix)
  if(NOT EXISTS "${program}")
    add_test("${program}_NOT_BUILT" "${program}_NOT_BUILT")
    return()
  endif()
  execute_process(COMMAND "${program}" --gtest_list_tests
    OUTPUT_VARIABLE listed RESULT_VARIABLE status TIMEOUT 120)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${status}\n${listed}")
  endif()
  string(REGEX REPLACE "#[^\n]*" "" listed "${listed}") # values of parameters, in any characters
  string(REPLACE "\n" ";" lines "${listed}")
  set(suites "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\. *$")
      set(suite "${CMAKE_MATCH_1}")
      list(APPEND suites "${suite}")
      set(tests 0)
    elseif(line MATCHES "^  ")
      math(EXPR tests "${tests} + 1")
      set(tests_${suite} ${tests})
    endif()
  endforeach()
  foreach(suite IN LISTS suites)
    add_test("${prefix}${suite}" "${program}" "--gtest_filter=${suite}.*")
    set_tests_properties("${prefix}${suite}" PROPERTIES COST ${tests_${suite}} ${ARGN})
  endforeach()
endfunction()
