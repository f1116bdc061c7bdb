// SPDX-License-Identifier: Apache-2.0
// Fuzz target: responses. A verdict does not depend on cuts, nor do responses without a body
// get one.
#include <tests/fuzz/http_message.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;

constexpr std::array<std::string_view, 30> pieces{"HTTP/1.1 ",
                                                  "HTTP/1.0 ",
                                                  "200 OK\r\n",
                                                  "100 \r\n",
                                                  "204 X\r\n",
                                                  "304 X\r\n",
                                                  "599 X\r\n",
                                                  "HTTP/1.1 200 OK\r\n",
                                                  "Content-Length: ",
                                                  "Transfer-Encoding: ",
                                                  "Connection: ",
                                                  "Upgrade: x",
                                                  "chunked",
                                                  "close",
                                                  "gzip",
                                                  "5",
                                                  "\r\n",
                                                  "\r\n\r\n",
                                                  "\r",
                                                  "\n",
                                                  " ",
                                                  "\t",
                                                  ":",
                                                  ",",
                                                  "a",
                                                  "5\r\nhello\r\n",
                                                  "0\r\n\r\n",
                                                  "hello",
                                                  "X: y\r\n",
                                                  "keep-alive"};

constexpr std::array<std::string_view, 3> directions{"response", "response HEAD",
                                                     "response CONNECT"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::size_t cut = decide.below(512);
  const std::string_view direction = directions[decide.below(directions.size())];
  const std::string text = gyre::fuzz::make_message(decide, pieces);
  const std::string verdict = gyre::fuzz::require_same_verdict(direction, text, cut);
  if (direction == "response HEAD" && verdict.starts_with("accept")) {
    require(verdict.contains(" body=none") && !verdict.contains(" data=["));
  }
  return 0;
}
