#include "cli/table.h"

#include <algorithm>

namespace tenon::cli {

namespace {

// Characters of UTF-8 text (all of ours are one column wide).
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string clip(const std::string& text, std::size_t limit) {
  if (width(text) <= limit) return text;
  std::size_t end = 0;
  for (std::size_t shown = 0; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && ++shown == limit) break;
  }
  return text.substr(0, end) + "…";
}

}  // namespace

std::string Table::render() const {
  std::vector<std::size_t> widths;
  for (const Column& c : columns_) widths.push_back(width(c.title));
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows)
    for (std::size_t i = 0; i < row.size() && i < columns_.size(); ++i) {
      row[i] = clip(row[i], columns_[i].max_width);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = i < cells.size() ? cells[i] : "";
      const std::string pad(widths[i] - width(cell), ' ');
      if (i) text += "  ";
      text += columns_[i].align == Align::kRight ? pad + cell : cell + pad;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& c : columns_) titles.push_back(c.title);
  line(titles);
  std::vector<std::string> rules;
  for (std::size_t w : widths) {
    std::string rule;
    for (std::size_t i = 0; i < w; ++i) rule += "─";
    rules.push_back(rule);
  }
  line(rules);
  for (const auto& row : rows) line(row);
  return out;
}

}  // namespace tenon::cli
