# What stops an error of ours before it becomes an attacker's tool: nodewise
# reads files that strangers made. NODEWISE_HARDEN=OFF is there to measure what
# that costs.
option(NODEWISE_HARDEN "Build with the checks of compiler, linker and libraries"
  ON)
mark_as_advanced(NODEWISE_HARDEN)

# An empty element of a RUNPATH is the working directory, from which the loader
# would take a libz.so.1 that the author of that folder has planted. CMake
# leaves such elements where it makes room for a path of another length. So programs
# are linked with the path that they have when they are installed: a build
# folder has the same places, bin and lib.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH $ORIGIN/../lib)
if(NOT CMAKE_INSTALL_LIBDIR STREQUAL lib)
  list(APPEND CMAKE_INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
endif()

if(NODEWISE_HARDEN)
  include(CheckCXXCompilerFlag)
  # Machines other than x86 have no such flag, or another meaning of it.
  check_cxx_compiler_flag(-fcf-protection NODEWISE_HAS_CF_PROTECTION)
  add_compile_options(-fstack-protector-strong
    $<$<BOOL:${NODEWISE_HAS_CF_PROTECTION}>:-fcf-protection>)
  add_link_options(-Wl,-z,relro,-z,now)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  # It does nothing without optimisation, and sanitizers look at more.
  if(NOT NODEWISE_SANITIZE)
    add_compile_options(
      "$<$<NOT:$<CONFIG:Debug,None,>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
endif()
