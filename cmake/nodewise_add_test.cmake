# Tests of CTest that ask nodewise whether a network is right:
#
#   nodewise_add_test(NAME name TARGET what [REFERENCE what] [INPUTS file...]
#                     [RANDOM_INPUTS seed] [ARCHIVE file]
#                     [WORKING_DIRECTORY folder] [OPTIONS argument...])
#
# The test runs `nodewise locate TARGET`, and fails if an operator is wrong (exit
# status 1) or if that cannot be judged (2). TARGET and REFERENCE are what the
# command takes, or a library that this project builds. Files are looked for in
# the folder of the CMakeLists.txt, or in WORKING_DIRECTORY. ARCHIVE keeps what
# was found out, for `nodewise report FILE`.
#
# find_package(nodewise) brings this function. Without it this file is enough:
# the command is then NODEWISE_COMMAND, or the one that PATH has.
function(nodewise_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg ""
    "NAME;TARGET;REFERENCE;RANDOM_INPUTS;ARCHIVE;WORKING_DIRECTORY"
    "INPUTS;OPTIONS")
  set(place "nodewise_add_test(NAME ${arg_NAME})")
  foreach(name IN ITEMS NAME TARGET)
    if(NOT arg_${name})
      message(FATAL_ERROR "${place}: has no ${name}, expected ${name} with a value")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${place}: has the arguments \"${arg_UNPARSED_ARGUMENTS}\", expected those of the command behind OPTIONS")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${place}: has ${arg_KEYWORDS_MISSING_VALUES} without a value, expected one, or leave it out")
  endif()
  _nodewise_command(command "${place}")
  _nodewise_file(target "${arg_TARGET}")
  set(options)
  if(arg_REFERENCE)
    _nodewise_file(reference "${arg_REFERENCE}")
    list(APPEND options --reference "${reference}")
  endif()
  # In one word, as a value may begin with a dash.
  foreach(file IN LISTS arg_INPUTS)
    list(APPEND options "--inputs=${file}")
  endforeach()
  if(DEFINED arg_RANDOM_INPUTS)
    list(APPEND options "--random-inputs=${arg_RANDOM_INPUTS}")
  endif()
  if(arg_ARCHIVE)
    list(APPEND options "--archive=${arg_ARCHIVE}")
  endif()
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  add_test(NAME "${arg_NAME}"
    COMMAND "${command}" locate "${target}" ${options} ${arg_OPTIONS}
    WORKING_DIRECTORY "${arg_WORKING_DIRECTORY}" COMMAND_EXPAND_LISTS)
endfunction()

# What runs nodewise: the caller's choice, the package's, or that of PATH.
function(_nodewise_command result place)
  if(NODEWISE_COMMAND)
    set(command "${NODEWISE_COMMAND}")
  elseif(TARGET nodewise::command)
    set(command $<TARGET_FILE:nodewise::command>)
  else()
    find_program(NODEWISE_COMMAND nodewise)
    if(NOT NODEWISE_COMMAND)
      message(FATAL_ERROR "${place}: the command nodewise is neither in the package nor in PATH, expected one of both, or -DNODEWISE_COMMAND=FILE")
    endif()
    set(command "${NODEWISE_COMMAND}")
  endif()
  set(${result} "${command}" PARENT_SCOPE)
endfunction()

# The file that a target of the project makes, or the text itself.
function(_nodewise_file result what)
  if(TARGET "${what}")
    set(what "$<TARGET_FILE:${what}>")
  endif()
  set(${result} "${what}" PARENT_SCOPE)
endfunction()
