// SPDX-License-Identifier: Apache-2.0
// Fuzz target: typed parameters. Values that were encoded are read back; other texts are refused by
// an error that does not repeat them.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/detail/parse_parameter.hpp>
#include <gyre/http/json_error.hpp>
#include <gyre/http/query.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
namespace http = gyre::http;
using http::detail::query_reader;

template <class T>
void check_type(std::string_view query) {
  try {
    const auto values = query_reader<std::vector<T>>::read(query, "a");
    try {
      const auto one = query_reader<std::optional<T>>::read(query, "a");
      require(values.size() == (one ? 1U : 0U));
    } catch (const http::parameter_error&) {
      require(values.size() > 1);
    }
  } catch (const http::http_error& error) {
    require(error.status() == http::status::bad_request);
    require(std::string_view(error.what()).size() < 200);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(4)) {
    case 0: {
      const std::string_view text = decide.rest();
      std::string query;
      http::append_pair(query, "b", text);
      http::append_pair(query, "a", text);
      require(query_reader<std::string>::read(query, "a") == text);
      http::append_pair(query, "a", text);
      require(query_reader<std::vector<std::string>>::read(query, "a").size() == 2);
      break;
    }
    case 1: {
      std::int64_t number = 0;
      while (!decide.empty()) {
        number = static_cast<std::int64_t>(static_cast<std::uint64_t>(number) << 8 | decide.byte());
      }
      const std::string text = std::to_string(number);
      require(query_reader<std::int64_t>::read("a=" + text, "a") == number);
      const auto small = http::parameter_traits<std::int16_t>::parse(text);
      require(small.has_value() == (number >= INT16_MIN && number <= INT16_MAX));
      if (small) require(*small == number);
      break;
    }
    case 2: {
      const std::string detail(decide.rest());
      const std::string text = http::json_error::mismatch(detail).what();
      require(text.size() < 300);
      for (const char each : text)
        require(each == '\t' || static_cast<unsigned char>(each) >= 0x20);
      break;
    }
    default: {
      const std::string query(decide.rest());
      check_type<int>(query);
      check_type<std::uint64_t>(query);
      check_type<double>(query);
      check_type<bool>(query);
      check_type<std::string>(query);
    }
  }
  return 0;
}
