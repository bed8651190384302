# tenon_embed(<target> <file> [SYMBOL <name>]): the bytes of <file>, a packed tuning database (tenon db
# pack), become part of <target>. Its sources see them as
#   extern "C" const unsigned char <name>[];       <name> is tenon_pack unless given
#   extern "C" const unsigned long long <name>_size;
# for tenon_library_open_bytes. Needs a GNU or Clang compiler. A relative <file> is one of the source folder
# or, where there is none, one that the build makes in its own, which is waited for.
function(tenon_embed target file)
  cmake_parse_arguments(ARG "" "SYMBOL" "" ${ARGN})
  if(NOT ARG_SYMBOL)
    set(ARG_SYMBOL tenon_pack)
  endif()
  set(folder ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT EXISTS "${folder}/${file}")
    set(folder ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${folder}")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_${ARG_SYMBOL}.c)
  file(WRITE ${source}.in "/* Written by tenon_embed. */
__asm__(\".section .rodata\\n\"
        \".global ${ARG_SYMBOL}\\n.balign 64\\n${ARG_SYMBOL}:\\n.incbin \\\"${file}\\\"\\n${ARG_SYMBOL}_end:\\n\"
        \".global ${ARG_SYMBOL}_size\\n.balign 8\\n${ARG_SYMBOL}_size:\\n.quad ${ARG_SYMBOL}_end - ${ARG_SYMBOL}\\n\"
        \".text\\n\");
")
  configure_file(${source}.in ${source} COPYONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${source})
endfunction()
