// SPDX-License-Identifier: Apache-2.0
// Judges messages by gyre's parser and by Boost.Beast's, for differential_test.py.
//
//   gyre_http_judge vectors    prints NAME, DIRECTION, BYTES and EXPECTED of each vector
//   gyre_http_judge judge      reads DIRECTION and BYTES, prints the verdicts of gyre and Beast
//
// One message a line; columns are separated by tabs, and BYTES are hexadecimal.
#include <tests/http/http_vectors.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

namespace {

namespace beast = boost::beast::http;
using gyre::http::test::escaped;

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char each : bytes) {
    const auto code = static_cast<unsigned char>(each);
    text += digits[code >> 4U];
    text += digits[code & 15U];
  }
  return text;
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(0, 2)), nullptr, 16));
  }
  return bytes;
}

std::string verdict_of_gyre(const std::string& direction, std::string_view bytes) {
  gyre::http::test::message_judge judge(direction);
  judge.feed(bytes);
  return judge.verdict();
}

template <class Parser>
std::string feed_beast(Parser& parser, std::string_view bytes) {
  boost::beast::error_code error;
  std::size_t consumed = 0;
  parser.eager(true);
  parser.body_limit(1024 * 1024);  // it reserves memory for a Content-Length below this
  parser.header_limit(64 * 1024);
  while (!parser.is_done()) {
    const std::string_view rest = bytes.substr(consumed);
    const std::size_t taken = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    consumed += taken;
    if (error == beast::error::need_more || (!error && taken == 0 && !parser.is_done())) {
      if (!parser.is_header_done() || !parser.need_eof()) return "incomplete";
      parser.put_eof(error);
      return error ? "incomplete" : "accept data=[" + escaped(parser.get().body()) + ']';
    }
    if (error == beast::error::body_limit) return "incomplete";
    if (error) return "refuse " + error.message();
  }
  std::string text = "accept data=[" + escaped(parser.get().body()) + ']';
  if (consumed != bytes.size()) text += " left=" + std::to_string(bytes.size() - consumed);
  return text;
}

std::string verdict_of_beast(const std::string& direction, const std::string& bytes) {
  if (direction.starts_with("response")) {
    beast::response_parser<beast::string_body> parser;
    const bool is_tunnel =
        direction.ends_with(" CONNECT") && std::string_view(bytes).find(" 2") == 8;
    parser.skip(is_tunnel || direction.ends_with(" HEAD"));
    return feed_beast(parser, bytes);
  }
  // A body alone gets the head that it needs.
  const std::string head = direction == "chunked"
                               ? "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                               : "";
  beast::request_parser<beast::string_body> parser;
  return feed_beast(parser, head + bytes);
}

void print_vectors() {
  for (const auto& each : gyre::http::test::read_http_vectors()) {
    std::cout << each.name << '\t' << each.direction << '\t' << to_hex(each.bytes) << '\t'
              << each.expected << '\n';
  }
}

void judge_lines() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t tab = line.find('\t');
    const std::string direction = line.substr(0, tab);
    const std::string bytes = from_hex(std::string_view(line).substr(tab + 1));
    std::cout << verdict_of_gyre(direction, bytes) << '\t' << verdict_of_beast(direction, bytes)
              << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view command = count == 2 ? arguments[1] : "";
  if (command == "vectors") {
    print_vectors();
  } else if (command == "judge") {
    judge_lines();
  } else {
    std::fputs("usage: gyre_http_judge vectors|judge\n", stderr);
    return 2;
  }
  return 0;
}
