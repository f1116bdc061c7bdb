// SPDX-License-Identifier: Apache-2.0
// server_test_support: requests, responses and a server in virtual time, for tests of the server.
#pragma once

#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http::test {

using net::test::peer;

// Takes the first whole response out of `text`, without its date. Returns nothing if it is
// incomplete.
inline std::optional<std::string> take_response(std::string& text, bool to_head = false) {
  const std::size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return std::nullopt;
  std::size_t size = head_end + 4;
  std::string head = text.substr(0, size);
  const auto length = head.find("Content-Length: ");
  if (head.find("Transfer-Encoding: chunked") != std::string::npos && !to_head) {
    const std::size_t end = text.find("0\r\n", size);
    const std::size_t last = end == std::string::npos ? end : text.find("\r\n\r\n", end);
    if (last == std::string::npos) return std::nullopt;
    size = last + 4;
  } else if (length != std::string::npos && !to_head) {
    size += std::strtoul(head.c_str() + length + 16, nullptr, 10);
    if (text.size() < size) return std::nullopt;
  }
  const std::size_t date = head.find("Date: ");
  if (date != std::string::npos) head.erase(date, head.find("\r\n", date) + 2 - date);
  std::string whole = head + text.substr(head_end + 4, size - head_end - 4);
  text.erase(0, size);
  return whole;
}

inline std::string get(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(more) + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more) + "\r\n" + std::string(body);
}

/// A server on a loop whose time the test advances, and its clients.
class server_fixture : public testing::Test {
 protected:
  void make(server_options options = {}) {
    on.emplace(virtual_time.loop, net::test::any_port(), options);
  }
  peer connect() { return peer(on->local_endpoint()); }
  std::string next_response(peer& from, bool to_head = false) {
    std::optional<std::string> whole;
    virtual_time.turn_until([&] {
      from.receive();
      whole = take_response(from.text, to_head);
      return whole || from.ended;
    });
    return whole.value_or("ended");
  }
  std::string answer_to(std::string_view bytes) {
    peer client = connect();
    client.send(bytes);
    return next_response(client);
  }
  bool ends(peer& client) {
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    return client.error == 0;
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<server> on;
};

}  // namespace gyre::http::test
