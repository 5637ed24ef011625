# Files of one folder are compiled together, a few at a time, since most of what
# a compiler does for one of them it would do again for its neighbour: the same
# headers, the same templates. It halves the time of a whole build; the price is
# that names in the anonymous namespaces of a folder must differ, and that after
# an edit the neighbours are compiled, too. NODEWISE_TOGETHER says how many are
# taken at a time. The preset `alone` has 1, which sees that files include what
# they use.

# nodewise_compile_together(TARGET [MOST]): call it when the target has all its
# sources. MOST is for a target that needs other parts: what is inlined depends
# on them.
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
    list(APPEND of_${folder} ${source})
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  # Tests have many names that are alike: smaller parts. Elsewhere a few files
  # that are left over would cost as much as a whole part, and join the others.
  set(most ${NODEWISE_TOGETHER})
  if(ARGN)
    set(most ${ARGN})
  endif()
  set(spare 0)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    math(EXPR most "(${NODEWISE_TOGETHER} * 4 + 4) / 5")
  else()
    math(EXPR spare "${most} / 2 - 1")
  endif()
  foreach(folder IN LISTS folders)
    list(LENGTH of_${folder} count)
    math(EXPR parts "(${count} + ${most} - 1 - ${spare}) / ${most}")
    if(parts EQUAL 0)
      set(parts 1)
    endif()
    set(number 0)
    foreach(source IN LISTS of_${folder})
      if(spare EQUAL 0)
        math(EXPR group "${number} / ${most} + 1")
      else()
        math(EXPR group "${number} * ${parts} / ${count} + 1")
      endif()
      math(EXPR number "${number} + 1")
      set_source_files_properties(${source} PROPERTIES
        UNITY_GROUP "${folder}_${group}")
    endforeach()
  endforeach()
endfunction()
