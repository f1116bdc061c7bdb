// SPDX-License-Identifier: Apache-2.0
// Fuzz target: replies of Redis. A verdict does not depend on how the bytes are cut, and a reply
// that the scanner has passed can be read as any type without reading beyond its end.
#include <gyre/engines/redis/detail/message_dispatcher.hpp>
#include <gyre/engines/redis/detail/reply_scanner.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/engines/redis/reply_traits.hpp>
#include <gyre/engines/redis/stream_entry.hpp>
#include <tests/fuzz/fuzz.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

namespace {

using namespace gyre::redis;
using detail::reply_scanner;
using gyre::fuzz::decisions;
using gyre::fuzz::require;

constexpr std::size_t max_reply = 4096;

constexpr std::array<std::string_view, 40> pieces{"+OK\r\n",
                                                  "-ERR x\r\n",
                                                  ":",
                                                  "1",
                                                  "-1",
                                                  "\r\n",
                                                  "$",
                                                  "$3\r\n",
                                                  "abc",
                                                  "$-1\r\n",
                                                  "*",
                                                  "*2\r\n",
                                                  "*0\r\n",
                                                  "*-1\r\n",
                                                  "%1\r\n",
                                                  "~2\r\n",
                                                  ">3\r\n",
                                                  "|1\r\n",
                                                  "_\r\n",
                                                  "#t\r\n",
                                                  "#f\r\n",
                                                  ",3.25\r\n",
                                                  ",inf\r\n",
                                                  ",nan\r\n",
                                                  "(123\r\n",
                                                  "!5\r\nERR x\r\n",
                                                  "=5\r\ntxt:a\r\n",
                                                  "\r",
                                                  "\n",
                                                  "999999999999",
                                                  "+message\r\n",
                                                  "+pmessage\r\n",
                                                  "+subscribe\r\n",
                                                  "$7\r\nmessage\r\n",
                                                  "+1-2\r\n",
                                                  "*1\r\n",
                                                  ":9223372036854775807\r\n",
                                                  "+news\r\n",
                                                  "x",
                                                  "%-1\r\n"};

std::string make_bytes(decisions& input) {
  std::string bytes;
  for (std::size_t left = 1 + input.below(60); left > 0; --left) {
    if (input.byte() < 16) {
      bytes += static_cast<char>(input.byte());
    } else {
      bytes += pieces[input.below(pieces.size())];
    }
  }
  return bytes;
}

struct verdict {
  std::vector<std::size_t> lengths;
  std::optional<errc> error;
  bool operator==(const verdict&) const = default;
};

// Scans as a connection does, which gets the bytes in pieces of `step` bytes.
verdict scan(std::string_view bytes, std::size_t step) {
  verdict result;
  reply_scanner scanner(max_reply);
  std::size_t begin = 0;
  std::size_t end = 0;
  for (;;) {
    const auto length = scanner.scan(bytes.substr(begin, end - begin));
    if (!length) {
      result.error = length.error();
      return result;
    }
    if (*length) {
      require(**length > 0 && **length <= end - begin);
      require(**length <= max_reply);
      result.lengths.push_back(**length);
      begin += **length;
    } else if (end == bytes.size()) {
      return result;
    } else {
      end = std::min(bytes.size(), end + step);
    }
  }
}

template <class T>
void read_as(std::string_view bytes) {
  reply_cursor values(bytes);
  try {
    if constexpr (std::is_void_v<T>) {
      read_reply<T>(values);
    } else {
      static_cast<void>(read_reply<T>(values));
    }
  } catch (const std::system_error&) {
    return;  // another type
  }
  require(values.empty());
}

void read_as_each_type(std::string_view bytes) {
  reply_cursor values(bytes);
  values.skip();
  require(values.empty());
  read_as<void>(bytes);
  read_as<bool>(bytes);
  read_as<std::int8_t>(bytes);
  read_as<std::uint64_t>(bytes);
  read_as<double>(bytes);
  read_as<std::string>(bytes);
  read_as<std::optional<std::vector<std::string>>>(bytes);
  read_as<std::map<std::string, reply>>(bytes);
  read_as<std::tuple<std::string, int>>(bytes);
  read_as<std::array<std::optional<int>, 2>>(bytes);
  read_as<std::expected<std::string, server_error>>(bytes);
  read_as<std::optional<streams>>(bytes);
  read_as<reply>(bytes);
  read_as<ignored>(bytes);
}

void deliver(detail::message_dispatcher& messages, std::string_view bytes) {
  if (reply_cursor(bytes).peek().kind == reply_kind::push) {
    static_cast<void>(messages.deliver(reply_cursor(bytes)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions input(data, size);
  const std::size_t step = 1 + input.below(16);
  const bool is_raw = input.flip();
  const std::string bytes = is_raw ? std::string(input.rest()) : make_bytes(input);

  const verdict whole = scan(bytes, bytes.size());
  require(whole == scan(bytes, step));

  detail::message_dispatcher messages;
  messages.add(std::make_shared<detail::message_queue>("news", subscription_options{}));
  std::string_view unread = bytes;
  for (const std::size_t length : whole.lengths) {
    // Memory of the reply's size, so that a sanitizer notices a read beyond the end.
    const std::vector<char> copy(unread.begin(),
                                 unread.begin() + static_cast<std::ptrdiff_t>(length));
    const std::string_view reply_bytes(copy.data(), copy.size());
    read_as_each_type(reply_bytes);
    deliver(messages, reply_bytes);
    unread.remove_prefix(length);
  }
  messages.end();
  return 0;
}
