# tenon_embed_text(<target> <output.cpp> <symbol> BASE <folder> FILES …): at build time writes a
# source that holds the files as text, named relative to BASE, and adds it to the target:
#   const tenon::EmbeddedFile <symbol>[]; const std::size_t <symbol>_count;
# Run as a script (-DOUTPUT= -DSYMBOL= -DBASE= -DLIST=) it writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} files)
  set(text "// Written by cmake/embed_text.cmake.\n#include \"codegen/embedded.h\"\n\n")
  string(APPEND text "namespace tenon::codegen {\nextern const EmbeddedFile ${SYMBOL}[] = {\n")
  set(count 0)
  foreach(file IN LISTS files)
    file(RELATIVE_PATH name ${BASE} ${file})
    # Not file(STRINGS) nor list operations: brackets and semicolons must survive.
    file(READ ${file} content)
    string(APPEND text "{\"${name}\", R\"tenon(${content})tenon\"},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  string(APPEND text "};\nextern const std::size_t ${SYMBOL}_count = ${count};\n}\n")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

set(TENON_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(tenon_embed_text target output symbol)
  cmake_parse_arguments(ARG "" "BASE" "FILES" ${ARGN})
  set(list ${output}.list)
  string(REPLACE ";" "\n" lines "${ARG_FILES}")
  file(GENERATE OUTPUT ${list} CONTENT "${lines}\n")
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSYMBOL=${symbol} -DBASE=${ARG_BASE} -DLIST=${list}
            -P ${TENON_EMBED_SCRIPT}
    DEPENDS ${ARG_FILES} ${list} ${TENON_EMBED_SCRIPT}
    COMMENT "Embedding device code" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
