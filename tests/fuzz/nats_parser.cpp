// SPDX-License-Identifier: Apache-2.0
// Fuzz target: operations of a NATS server. The operations do not depend on cuts, and are within
// the bytes; messages with any headers, and any INFO, can be read.
#include <gyre/engines/nats/detail/login.hpp>
#include <gyre/engines/nats/detail/message_block.hpp>
#include <gyre/engines/nats/detail/parser.hpp>
#include <gyre/engines/nats/message.hpp>

#include <tests/fuzz/fuzz.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::nats::message;
using gyre::nats::detail::message_block;
using gyre::nats::detail::operation;
using gyre::nats::detail::operation_kind;
using gyre::nats::detail::parser;

constexpr std::size_t max_message = 64;

constexpr std::array<std::string_view, 24> pieces = {
    "MSG ",         "HMSG ", "INFO {\"port\":",
    "PING",         "PONG",  "+OK",
    "-ERR '",       "\r\n",  "\r",
    "\n",           " ",     "\t",
    "a.b",          "1",     "12",
    "NATS/1.0\r\n", "A: 1",  "\r\n\r\n",
    "503 none",     "}",     "'",
    "64",           "99999", "MSG a 1 3\r\nxyz\r\n"};

// Reads all of a message, and gives its parts as text.
std::string text_of(const operation& found) {
  const message read(message_block::make(found));
  std::string text = std::to_string(found.sid) + ' ' + std::string(read.subject()) + ' ' +
                     std::string(read.reply()) + ' ' + std::string(read.text()) + ' ' +
                     std::to_string(read.status()) + std::string(read.description());
  for (const auto& [name, value] : read.headers()) {
    require(!name.empty() && name.find(':') == std::string_view::npos);
    text.append(name).append("=").append(value);
    require(read.headers().find(name).has_value());
  }
  return text;
}

// The text of what is found in `bytes`, of which parts of `part` bytes come one after the other.
std::string verdict(std::string_view bytes, std::size_t part) {
  parser input(max_message);
  std::string text;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < bytes.size();) {
    end = std::min(bytes.size(), end + part);
    for (;;) {
      const std::string_view rest = bytes.substr(begin, end - begin);
      const auto found = input.parse(rest);
      if (!found) return text + " error " + std::to_string(static_cast<int>(found.error()));
      if (!*found) break;
      const operation& one = **found;
      require(one.size > 0 && one.size <= rest.size());
      require(one.payload.size() + one.headers.size() <= max_message);
      text += " [" + std::to_string(static_cast<int>(one.kind)) + std::string(one.text);
      if (one.kind == operation_kind::message) text += text_of(one);
      if (one.kind == operation_kind::info) {
        text += gyre::nats::detail::parse_info(one.text) ? " info" : " none";
      }
      text += ']';
      begin += one.size;
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::size_t part = decide.below(16) + 1;
  std::string bytes;
  while (!decide.empty() && bytes.size() < 4096) {
    const std::size_t choice = decide.below(pieces.size() + 4);
    bytes += choice < pieces.size() ? pieces[choice] : decide.text(choice - pieces.size() + 1);
  }
  const std::string whole = verdict(bytes, bytes.size() + 1);
  require(verdict(bytes, part) == whole);
  require(verdict(bytes, 1) == whole);
  return 0;
}
