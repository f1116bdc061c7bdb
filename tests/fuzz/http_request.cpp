// SPDX-License-Identifier: Apache-2.0
// Fuzz target: requests. A verdict does not depend on cuts, and an accepted head keeps RFC 9112's
// rules, as a simple reader sees them.
#include <tests/fuzz/http_message.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;

constexpr std::array<std::string_view, 32> pieces{"GET ",
                                                  "POST ",
                                                  "CONNECT ",
                                                  "OPTIONS ",
                                                  "/ ",
                                                  "* ",
                                                  "http://a/ ",
                                                  "a:80 ",
                                                  "HTTP/1.1\r\n",
                                                  "HTTP/1.0\r\n",
                                                  "HTTP/2.0\r\n",
                                                  "GET / HTTP/1.1\r\nHost: a\r\n",
                                                  "Host: ",
                                                  "Content-Length: ",
                                                  "Transfer-Encoding: ",
                                                  "Connection: ",
                                                  "Expect: 100-continue\r\n",
                                                  "chunked",
                                                  "5",
                                                  "\r\n",
                                                  "\r\n\r\n",
                                                  "\r",
                                                  "\n",
                                                  " ",
                                                  "\t",
                                                  ":",
                                                  ",",
                                                  "close",
                                                  "a",
                                                  "5\r\nhello\r\n",
                                                  "0\r\n\r\n",
                                                  "\0"};

// Lines end in CR LF, no control character stands elsewhere, and the framing is clear.
void check_accepted_head(std::string_view head) {
  if (head.starts_with("\r\n")) head.remove_prefix(2);
  std::size_t lengths = 0;
  std::size_t codings = 0;
  for (bool first = true; !head.empty(); first = false) {
    const std::size_t end = head.find("\r\n");
    require(end != std::string_view::npos);
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    for (const char each : line) require(each == 9 || (each & 0x60) != 0 || (each & 0x80) != 0);
    if (first || line.empty()) continue;
    const std::size_t colon = line.find(":");
    require(colon != std::string_view::npos && colon != 0);
    require(line.find_first_of(" \t") > colon);
    std::string name(line.substr(0, colon));
    for (char& each : name) each = each >= 65 && each <= 90 ? static_cast<char>(each + 32) : each;
    lengths += name == "content-length" ? 1 : 0;
    codings += name == "transfer-encoding" ? 1 : 0;
  }
  require(lengths + codings <= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::size_t cut = decide.below(512);
  const std::string text = gyre::fuzz::make_message(decide, pieces);
  const std::string verdict = gyre::fuzz::require_same_verdict("request", text, cut);
  if (!verdict.starts_with("accept")) return 0;
  check_accepted_head(std::string_view(text).substr(0, text.find("\r\n\r\n") + 4));
  // Bytes behind a message do not change it.
  const std::string more = text + "X";
  const std::string with_more = gyre::fuzz::require_same_verdict("request", more, cut);
  require(with_more.starts_with(verdict.substr(0, verdict.find(" left="))));
  return 0;
}
