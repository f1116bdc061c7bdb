// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/site.hpp>
#include <gyre/http/percent_encoding.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gyre::http::detail {
namespace {

void append_escaped(std::string& page, std::string_view text) {
  for (const char each : text) {
    switch (each) {
      case '&': page += "&amp;"; break;
      case '<': page += "&lt;"; break;
      case '>': page += "&gt;"; break;
      case '"': page += "&quot;"; break;
      case '\'': page += "&#39;"; break;
      default: page += static_cast<unsigned char>(each) < 0x20 || each == 0x7f ? '?' : each;
    }
  }
}

enum class entry_kind : std::uint8_t { none, file, directory };

entry_kind kind_of(int directory, const ::dirent& entry, bool follow_symlinks) noexcept {
  if (entry.d_type == DT_REG) return entry_kind::file;
  if (entry.d_type == DT_DIR) return entry_kind::directory;
  // Its target, which may be outside the root, is not looked at.
  if (entry.d_type == DT_LNK) return follow_symlinks ? entry_kind::file : entry_kind::none;
  if (entry.d_type != DT_UNKNOWN) return entry_kind::none;
  struct ::stat status{};
  if (::fstatat(directory, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return entry_kind::none;
  }
  if (S_ISLNK(status.st_mode) && follow_symlinks) return entry_kind::file;
  if (S_ISREG(status.st_mode)) return entry_kind::file;
  return S_ISDIR(status.st_mode) ? entry_kind::directory : entry_kind::none;
}

}  // namespace

std::expected<std::string, int> list_directory(unique_fd directory, std::string_view title,
                                               const file_server_options& options) {
  const auto close = [](::DIR* open) { ::closedir(open); };
  const std::unique_ptr<::DIR, decltype(close)> entries(::fdopendir(directory.get()), close);
  if (!entries) return std::unexpected(errno);
  static_cast<void>(directory.release());

  std::vector<std::string> names;
  bool is_cut = false;
  for (;;) {
    errno = 0;
    const ::dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) {
      if (errno != 0) return std::unexpected(errno);
      break;
    }
    if (!is_served_name(entry->d_name, options.hidden_files)) continue;
    const entry_kind kind = kind_of(::dirfd(entries.get()), *entry, options.follow_symlinks);
    if (kind == entry_kind::none) continue;
    is_cut = names.size() >= options.list_limit;
    if (is_cut) break;
    names.emplace_back(entry->d_name);
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
