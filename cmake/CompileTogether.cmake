# Files of one folder are compiled together, a few at a time, since most of what
# a compiler does for one of them it would do again for its neighbour: the same
# headers, the same templates. It halves the time of a whole build; the price is
# that names in the anonymous namespaces of a folder must differ, and that after
# an edit the neighbours are compiled, too. NODEWISE_TOGETHER says how many are
# taken at a time. The preset `alone` has 1, which sees that files include what
# they use.

# nodewise_compile_together(TARGET): call it when the target has all its sources.
function(nodewise_compile_together target)
  if(NODEWISE_TOGETHER LESS_EQUAL 1)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(SORT sources)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    math(EXPR group "(${count_${folder}} - 1) / ${NODEWISE_TOGETHER} + 1")
    set_source_files_properties(${source} PROPERTIES
      UNITY_GROUP "${folder}_${group}")
  endforeach()
endfunction()
