// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/site.hpp>
#include <gyre/http/percent_encoding.hpp>
#include <gyre/io/detail/open_directory.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace gyre::http::detail {
namespace {

void append_escaped(std::string& page, std::string_view text) {
  for (const char character : text) {
    switch (character) {
      case '&': page += "&amp;"; break;
      case '<': page += "&lt;"; break;
      case '>': page += "&gt;"; break;
      case '"': page += "&quot;"; break;
      case '\'': page += "&#39;"; break;
      default:
        page += static_cast<unsigned char>(character) < 0x20 || character == 0x7f ? '?' : character;
    }
  }
}

enum class entry_kind : std::uint8_t { none, file, directory };

entry_kind kind_of(io::file_type type, bool follow_symlinks) noexcept {
  using enum io::file_type;
  if (type == regular) return entry_kind::file;
  if (type == directory) return entry_kind::directory;
  // A symlink counts as a file: its target is not looked up, as it may be outside the root.
  return type == symlink && follow_symlinks ? entry_kind::file : entry_kind::none;
}

}  // namespace

std::expected<std::string, int> list_directory(unique_fd directory, std::string_view title,
                                               const file_server_options& options) {
  io::detail::open_directory entries(std::move(directory));
  std::vector<std::string> names;
  bool is_cut = false;
  for (;;) {
    const auto entry = entries.next();
    if (!entry) return std::unexpected(entry.error().value());
    if (!*entry) break;
    const char* const name = (*entry)->name;
    if (!is_served_name(name, options.hidden_files)) continue;
    const entry_kind kind = kind_of((*entry)->type, options.follow_symlinks);
    if (kind == entry_kind::none) continue;
    is_cut = names.size() >= options.list_limit;
    if (is_cut) break;
    names.emplace_back(name);
    if (kind == entry_kind::directory) names.back() += '/';
  }
  std::ranges::sort(names);

  std::string page = "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>";
  append_escaped(page, title);
  page += "</title></head>\n<body><h1>";
  append_escaped(page, title);
  page += "</h1>\n<ul>\n";
  for (const std::string& name : names) {
    const bool is_directory = name.ends_with('/');
    page += "<li><a href=\"";
    append_encoded_component(page, std::string_view(name).substr(0, name.size() - is_directory));
    page += is_directory ? "/\">" : "\">";
    append_escaped(page, name);
    page += "</a></li>\n";
  }
  page +=
      is_cut ? "</ul>\n<p>The list is cut here.</p>\n</body></html>\n" : "</ul>\n</body></html>\n";
  return page;
}

}  // namespace gyre::http::detail
