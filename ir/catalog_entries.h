// The text of the catalog's programs. Internal to ir/.
#pragma once

#include <vector>

namespace tenon::ir {

struct CatalogText {
  const char* formula;
  const char* found_in;
  const char* text;
};

const std::vector<CatalogText>& catalog_texts();

}  // namespace tenon::ir
