// SPDX-License-Identifier: Apache-2.0
// Fuzz target: URLs, request targets, queries and percent-encoding. URLs are written as they are
// read, a resolved reference is a URL, and encoded texts decode to themselves.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/query.hpp>
#include <gyre/http/request_target.hpp>
#include <gyre/http/url.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::url;

// Joins pieces of URLs, so that some of the texts are URLs.
std::string make_text(decisions& decide) {
  static constexpr std::array<std::string_view, 32> pieces{
      "http:", "https://", "//", "/",  "..",  ".",     "%2e", "%2F",     "?",   "#",    "&",
      "=",     "@",        ":",  "80", "443", "[::1]", "a",   "EXAMPLE", "b.c", "%",    "%zz",
      "x:y",   "1.2.3.4",  "[",  "]",  "*",   "+",     " ",   "\xff",    ":0",  "xn--a"};
  std::string text;
  for (std::size_t count = decide.below(16); count > 0; --count) {
    if (decide.below(10) == 0) {
      text += decide.text(1 + decide.below(3));
    } else {
      text += pieces[decide.below(pieces.size())];
    }
  }
  return text;
}

void check_url(decisions& decide) {
  std::string text = make_text(decide);
  if (decide.flip()) text.insert(0, "http://a");
  const auto parsed = url::parse(text);
  if (!parsed) return;
  require(parsed->path().starts_with('/') && !parsed->host().empty());
  require(!parsed->path().contains("/../") && !parsed->path().ends_with("/.."));
  const auto again = url::parse(parsed->to_string());
  require(again && again->to_string() == parsed->to_string());
  require(again->target() == parsed->target() && again->has_origin_of(*parsed));
  require(parsed->resolve(parsed->target()).has_value() || parsed->target().starts_with("//"));
  const auto next = parsed->resolve(make_text(decide));
  if (next) require(url::parse(next->to_string()).has_value());
}

void check_target(decisions& decide) {
  using gyre::http::method;
  using gyre::http::target_form;
  const auto which = static_cast<method>(decide.below(10));
  const std::string text = make_text(decide);
  const auto target = gyre::http::request_target::parse(which, text);
  if (!target) return;
  require((which == method::connect) == (target->form() == target_form::authority));
  require(which == method::options || target->form() != target_form::asterisk);
  if (target->form() == target_form::origin) {
    std::string whole(target->path());
    if (target->has_query()) whole.append("?").append(target->query());
    require(whole == text);
  }
}

void check_query(decisions& decide) {
  const std::string text = make_text(decide);
  const auto parsed = gyre::http::query::parse(text, {.max_pairs = 8});
  if (!parsed) return;
  std::string written;
  std::size_t count = 0;
  for (const auto& each : *parsed) {
    gyre::http::append_pair(written, each.decoded_name(), each.decoded_value());
    require(parsed->contains(each.decoded_name()));
    ++count;
  }
  require(count <= 8);
  const auto again = gyre::http::query::parse(written);
  require(again.has_value());
  auto at = again->begin();
  for (const auto& each : *parsed) {
    require(at != again->end() && at->decoded_name() == each.decoded_name());
    require(at->decoded_value() == each.decoded_value());
    ++at;
  }
  require(at == again->end());
}

void check_percent_encoding(decisions& decide) {
  const std::string_view bytes = decide.rest();
  require(gyre::http::percent_decode(gyre::http::encode_component(bytes)) == bytes);
  require(gyre::http::percent_decode(gyre::http::encode_path(bytes)) == bytes);
  std::string text(bytes);
  const auto decoded = gyre::http::percent_decode(bytes);
  require(decoded.has_value() == gyre::http::is_percent_encoded(bytes));
  const auto in_place = gyre::http::percent_decode(text, std::span<char>(text));
  require(decoded.has_value() == in_place.has_value());
  if (decoded) require(*in_place == *decoded && gyre::http::decodes_to(bytes, *decoded));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(4)) {
    case 0: check_url(decide); break;
    case 1: check_target(decide); break;
    case 2: check_query(decide); break;
    default: check_percent_encoding(decide);
  }
  return 0;
}
