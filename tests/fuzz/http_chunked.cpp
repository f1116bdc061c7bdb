// SPDX-License-Identifier: Apache-2.0
// Fuzz target: chunked bodies. A verdict does not depend on cuts, and a body that is encoded
// again decodes to the same bytes.
#include <gyre/http/detail/message_writer.hpp>
#include <tests/fuzz/http_message.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;

constexpr std::array<std::string_view, 30> pieces{"0\r\n\r\n",
                                                  "0\r\n",
                                                  "5\r\nhello\r\n",
                                                  "5;a=b\r\nhello\r\n",
                                                  "1",
                                                  "a",
                                                  "F",
                                                  ";",
                                                  "a=b",
                                                  "=\"x\"",
                                                  "\"",
                                                  "\\",
                                                  " ",
                                                  "\t",
                                                  "\r\n",
                                                  "\r",
                                                  "\n",
                                                  "X: y\r\n",
                                                  "Host: a\r\n",
                                                  ":",
                                                  "5",
                                                  "hello",
                                                  "\r\n\r\n",
                                                  "ffffffff",
                                                  "7fffffff",
                                                  "00000000",
                                                  "x",
                                                  ",",
                                                  "3\r\nabc\r\n",
                                                  "1\r\n"};

// The chunks of `data`, each of at most `longest` bytes.
std::string encode(std::string_view data, std::size_t longest) {
  gyre::http::detail::message_writer writer;
  writer.begin_request(gyre::http::detail::body_kind::chunked, 0, false);
  std::string text;
  while (!data.empty()) {
    const std::string_view part = data.substr(0, longest);
    data.remove_prefix(part.size());
    require(writer.add(part.size()) == gyre::http::errc{});
    text.append(writer.format_chunk_header(part.size())).append(part).append("\r\n");
  }
  writer.complete();
  writer.append_end(text, "");
  return text;
}

void check_round_trip(decisions& decide, std::size_t cut) {
  const std::size_t longest = 1 + decide.below(255);
  const std::string_view data = decide.rest();
  const std::string verdict =
      gyre::fuzz::require_same_verdict("chunked", encode(data, longest), cut);
  const std::string expected =
      data.empty() ? "accept" : "accept data=[" + gyre::http::test::escaped(data) + "]";
  require(verdict == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::size_t cut = decide.below(512);
  if (decide.flip()) {
    check_round_trip(decide, cut);
  } else {
    gyre::fuzz::require_same_verdict("chunked", gyre::fuzz::make_message(decide, pieces), cut);
  }
  return 0;
}
