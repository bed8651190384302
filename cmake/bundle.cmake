# What scripts/bundle.sh packs: the programs over one shared library, libtenon.so, instead of
# with a copy of the same code in each. Built on demand: target bundle_programs.
set(objects "")
foreach(folder IN LISTS TENON_FOLDERS)
  if(TARGET tenon_${folder})
    get_target_property(type tenon_${folder} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:tenon_${folder}>)
    endif()
  endif()
endforeach()
add_library(tenon_shared SHARED EXCLUDE_FROM_ALL ${objects})
# The archives come after their own objects, so that nothing of them is taken twice; they name
# what else there is to link.
target_link_libraries(tenon_shared PRIVATE tenon_optimizer)
target_link_options(tenon_shared PRIVATE -Wl,--as-needed -Wl,--no-undefined)
set_target_properties(tenon_shared PROPERTIES
  OUTPUT_NAME tenon
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bundle)

add_custom_target(bundle_programs)
foreach(program tenon tenon_worker tenon_gpu_tests)
  if(TARGET ${program})
    add_executable(${program}_bundled EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
    # First the shared library: what it has is not taken from archives.
    target_link_libraries(${program}_bundled PRIVATE
      tenon_shared $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
    target_link_options(${program}_bundled PRIVATE -Wl,--as-needed)
    set_target_properties(${program}_bundled PROPERTIES
      OUTPUT_NAME ${program}
      LINKER_LANGUAGE CXX
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bundle)
    add_dependencies(bundle_programs ${program}_bundled)
  endif()
endforeach()
