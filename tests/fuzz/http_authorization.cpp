// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the field Authorization, and the origins of CORS. Credentials that were encoded are
// read back; any other text is refused or obeys the grammar.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/base/constant_time_equal.hpp>
#include <gyre/base/detail/base64.hpp>
#include <gyre/http/detail/authorization.hpp>
#include <gyre/http/detail/origin_list.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
namespace http = gyre::http::detail;

bool has_control(std::string_view text) {
  for (const char each : text) {
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7f) return true;
  }
  return false;
}

void check_basic(std::string_view text) {
  const auto login = http::parse_basic(text);
  if (!login) return;
  require(!has_control(login->text));
  require(!login->name().contains(':'));
  require(std::string(login->name()) + ':' + std::string(login->password()) == login->text);
  require(gyre::detail::encode_base64(std::as_bytes(std::span(login->text))) == text);
}

void check_header(std::string_view value) {
  const std::array<gyre::http::field, 2> fields{
      {{.name = "AUTHORIZATION", .value = value}, {.name = "authorization", .value = value}}};
  require(http::credentials_of(gyre::http::field_list(fields), "basic").error() ==
          http::authorization_fault::malformed);
  const gyre::http::field_list one(std::span(fields).first(1));
  const auto basic = http::credentials_of(one, "basic");
  const auto bearer = http::credentials_of(one, "bearer");
  require(!basic || !bearer);
  if (basic) check_basic(*basic);
  if (bearer && http::is_bearer_token(*bearer)) {
    require(!bearer->empty() && !has_control(*bearer) &&
            bearer->find_first_of(" \",") == bearer->npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<std::string, 3> origins{"https://*.example.org", "http://localhost:3000",
                                                  "https://a.test"};
  static constexpr std::array<std::string_view, 6> schemes{"Basic ",   "bAsIc",   "Bearer ",
                                                           "bearer  ", "Digest ", ""};
  static constexpr std::array<std::string_view, 12> origin_parts{
      "https://", "http://", ".example.org", "a", "localhost:3000", "a.test", "/", ":", "@",
      ".",        "A",       "null"};
  decisions decide(data, size);
  switch (decide.below(4)) {
    case 0: {
      const std::string login(decide.rest());
      const std::string encoded = gyre::detail::encode_base64(std::as_bytes(std::span(login)));
      require(http::parse_basic(encoded).has_value() ==
              (login.contains(':') && !has_control(login)));
      check_header("Basic " + encoded);
      break;
    }
    case 1: {
      const std::string_view scheme = schemes[decide.below(schemes.size())];
      check_header(std::string(scheme) + std::string(decide.rest()));
      break;
    }
    case 2: {
      std::string origin;
      while (!decide.empty()) origin += origin_parts[decide.below(origin_parts.size())];
      const bool is_pattern =
          origin.starts_with("https://") && origin.ends_with(".example.org") &&
          origin.size() > 8 + 12 && origin.size() <= 8 + 63 + 12 &&
          origin.substr(8, origin.size() - 8 - 12)
                  .find_first_not_of("abcdefghijklmnopqrstuvwxyzA") == std::string::npos;
      require(http::contains_origin(origins, origin) ==
              (is_pattern || origin == "http://localhost:3000" || origin == "https://a.test"));
      break;
    }
    default: {
      const std::string_view secret = decide.text(decide.below(40));
      const std::string_view text = decide.rest();
      require(gyre::constant_time_equal(secret, text) == (secret == text));
      require(gyre::constant_time_equal(text, text));
    }
  }
  return 0;
}
