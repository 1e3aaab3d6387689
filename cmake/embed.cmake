# gf_embed_files(TARGET gf_emulator NAMESPACE ghostfleet::emulator FUNCTION embedded_profiles FILES a.yaml b.yaml)
#
# Puts files into the program: generates FUNCTION.cc that defines
#   const std::vector<std::pair<std::string_view, std::string_view>>& FUNCTION();   // file name and content
function(gf_embed_files)
  cmake_parse_arguments(E "" "TARGET;NAMESPACE;FUNCTION" "FILES" ${ARGN})
  set(body "")
  foreach(file IN LISTS E_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    file(READ ${file} content)
    string(APPEND body "      {\"${name}\", R\"gfembed(${content})gfembed\"},\n")
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${E_FUNCTION}.cc)
  file(CONFIGURE OUTPUT ${out} CONTENT "#include <string_view>
#include <utility>
#include <vector>

namespace ${E_NAMESPACE} {
const std::vector<std::pair<std::string_view, std::string_view>>& ${E_FUNCTION}();
const std::vector<std::pair<std::string_view, std::string_view>>& ${E_FUNCTION}() {
  static const std::vector<std::pair<std::string_view, std::string_view>> files = {
@body@  };
  return files;
}
}  // namespace ${E_NAMESPACE}
" @ONLY)
  target_sources(${E_TARGET} PRIVATE ${out})
endfunction()
