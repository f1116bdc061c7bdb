// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/parse_parameter.hpp>

#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/query.hpp>

namespace gyre::http::detail {
namespace {

http::query parse_query(std::string_view text) {
  const auto pairs = http::query::parse(text);
  if (!pairs) {
    throw http_error(status::bad_request,
                     "The query is malformed: " + pairs.error().message() + '.');
  }
  return *pairs;
}

}  // namespace

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  return parse_query(query).get_all(name);
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  std::optional<std::string> value;
  for (const query_pair& pair : parse_query(query)) {
    if (!decodes_to(pair.name, name, plus_sign::is_blank)) continue;
    if (value) throw parameter_error(name, "given once");
    value = pair.decoded_value();
  }
  return value;
}

}  // namespace gyre::http::detail
