// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/key_value_names.hpp>

#include <gyre/base/detail/ascii.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace gyre::nats::detail {
namespace {

bool is_bucket_character(char character) noexcept {
  return gyre::detail::is_letter(character) || gyre::detail::is_digit(character) ||
         character == '-' || character == '_';
}

bool is_key_token(std::string_view token) noexcept {
  return !token.empty() && std::ranges::all_of(token, [](char character) {
    return is_bucket_character(character) || character == '/' || character == '=';
  });
}

bool is_key(std::string_view key, bool is_pattern) noexcept {
  for (;;) {
    const std::size_t end = key.find('.');
    const std::string_view token = key.substr(0, end);
    const bool is_last = end == std::string_view::npos;
    const bool is_wildcard = is_pattern && (token == "*" || (token == ">" && is_last));
    if (!is_wildcard && !is_key_token(token)) return false;
    if (is_last) return true;
    key.remove_prefix(end + 1);
  }
}

void require_valid(bool is_valid, std::string_view name, const char* kind) {
  if (is_valid) return;
  throw std::invalid_argument("gyre::nats::key_value: '" + std::string(name) + "' is no " + kind);
}

}  // namespace

void check_bucket(std::string_view bucket) {
  require_valid(!bucket.empty() && std::ranges::all_of(bucket, is_bucket_character), bucket,
                "name of a bucket");
}
void check_key(std::string_view key) { require_valid(is_key(key, false), key, "key"); }
void check_key_pattern(std::string_view pattern) {
  require_valid(is_key(pattern, true), pattern, "pattern of keys");
}

std::string stream_of_bucket(std::string_view bucket) { return "KV_" + std::string(bucket); }
std::string key_prefix(std::string_view bucket) { return "$KV." + std::string(bucket) + '.'; }

key_value_operation operation_of(header_view headers) noexcept {
  if (const auto operation = headers.find("KV-Operation")) {
    return *operation == "PURGE" ? key_value_operation::purge : key_value_operation::remove;
  }
  if (const auto reason = headers.find("Nats-Marker-Reason")) {
    return *reason == "Remove" ? key_value_operation::remove : key_value_operation::purge;
  }
  return key_value_operation::put;
}

}  // namespace gyre::nats::detail
