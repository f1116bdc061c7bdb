// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/media_type.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/parameters.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gyre::http {
namespace {

struct known_type {
  std::string_view extension;
  std::string_view type;
};

constexpr auto known_types = std::to_array<known_type>({
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avif", "image/avif"},
    {"avi", "video/x-msvideo"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/x-icon"},
    {"ics", "text/calendar; charset=utf-8"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"map", "application/json"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"ts", "video/mp2t"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
});

}  // namespace

std::optional<media_type> media_type::parse(std::string_view text) {
  media_type result;
  text = detail::trim(text);
  result.type_ = detail::take_while(detail::in_token, text);
  if (result.type_.empty() || !text.starts_with('/')) return std::nullopt;
  text.remove_prefix(1);
  result.subtype_ = detail::take_while(detail::in_token, text);
  if (result.subtype_.empty()) return std::nullopt;
  result.parameters_ = detail::without_empty_parameters(text);
  // Refuses a repeated name: other programs may use the other value and so read a different type.
  constexpr std::size_t max_parameters = 16;
  std::array<std::string_view, max_parameters> names;
  std::size_t count = 0;
  for (std::string_view rest = result.parameters_; !rest.empty();) {
    const auto parameter = detail::take_parameter(rest);
    if (!parameter || count == max_parameters) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) {
      if (detail::equals_ignoring_case(names[i], parameter->name)) return std::nullopt;
    }
    names[count++] = parameter->name;
  }
  return result;
}

bool media_type::is(std::string_view type_and_subtype) const noexcept {
  const std::string_view type = detail::take_until(type_and_subtype, '/');
  return detail::equals_ignoring_case(type, type_) &&
         detail::equals_ignoring_case(type_and_subtype, subtype_);
}

bool media_type::has_suffix(std::string_view suffix) const noexcept {
  const std::size_t plus = subtype_.rfind('+');
  return plus != std::string_view::npos && plus != 0 &&
         detail::equals_ignoring_case(subtype_.substr(plus + 1), suffix);
}

std::optional<std::string> media_type::parameter(std::string_view name) const {
  for (std::string_view rest = parameters_; !rest.empty();) {
    const auto parameter = detail::take_parameter(rest);
    if (!parameter) break;
    if (detail::equals_ignoring_case(parameter->name, name)) return parameter->value();
  }
  return std::nullopt;
}

std::string_view media_type_of(std::string_view file_name) noexcept {
  const std::string_view name = file_name.substr(file_name.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot != name.npos && dot != 0) {
    const auto entry = std::ranges::find_if(known_types, [&](const known_type& candidate) {
      return detail::equals_ignoring_case(candidate.extension, name.substr(dot + 1));
    });
    if (entry != known_types.end()) return entry->type;
  }
  return "application/octet-stream";
}

bool is_compressible(std::string_view media_type) noexcept {
  const std::string_view type = detail::trim(media_type.substr(0, media_type.find(';')));
  constexpr auto other_types = std::to_array<std::string_view>(
      {"application/json", "application/javascript", "application/xml", "application/yaml",
       "application/wasm", "application/manifest+json", "application/vnd.apple.mpegurl",
       "application/rtf", "application/x-tar", "image/svg+xml", "image/bmp", "image/x-icon",
       "font/ttf", "font/otf"});
  constexpr std::string_view text = "text/";
  if (detail::equals_ignoring_case(type.substr(0, text.size()), text)) return true;
  for (const std::string_view suffix : {"+json", "+xml"}) {
    if (type.size() > suffix.size() &&
        detail::equals_ignoring_case(type.substr(type.size() - suffix.size()), suffix)) {
      return true;
    }
  }
  return std::ranges::any_of(other_types, [&](std::string_view candidate) {
    return detail::equals_ignoring_case(candidate, type);
  });
}

}  // namespace gyre::http
