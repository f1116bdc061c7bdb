// SPDX-License-Identifier: Apache-2.0
// Vectors of messages of HTTP/1, read from the files in vectors/, and a judge that runs gyre's
// parser on one. vectors/README.md describes the format.
//
//     for (const http_vector& each : read_http_vectors()) {
//       message_judge judge(each.direction);
//       judge.feed(each.bytes);               // all that has come so far
//       EXPECT_EQ(judge.verdict(), each.expected);
//     }
#pragma once

#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/detail/message_reader.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::test {

struct http_vector {
  std::string name;
  std::string source;
  std::string direction;  ///< "request", "response" or "chunked"; a request's method may follow
  std::string bytes;
  std::string expected;  ///< "accept …", "refuse ERRC" or "incomplete"
};

/// All vectors. Throws std::runtime_error with the place of a mistake in a file.
std::vector<http_vector> read_http_vectors();

/// Printable bytes as they are, the others and `\` as escapes.
std::string escaped(std::string_view bytes);

/// The name of an error, such as "bad_field".
std::string_view name_of(errc code);

/// Runs the parser and the reader on a message that comes in pieces.
class message_judge {
 public:
  explicit message_judge(std::string_view direction);

  /// Judges the bytes that have come so far. Once it returns false, the verdict is final.
  bool feed(std::string_view so_far);
  /// After the last bytes.
  [[nodiscard]] std::string verdict() const;

 private:
  enum class state { head, body, done, refused };

  void read_head(std::span<char> bytes);
  void read_body(std::string_view bytes);
  void add_framing(const detail::message_framing& framing);
  void begin_body(const detail::message_framing& framing);
  void refuse(errc code);

  bool is_request_ = false;
  std::string method_;
  detail::head_limits limits_;
  detail::head_scanner scanner_;
  detail::request_head request_;
  detail::response_head response_;
  detail::message_reader reader_;
  state state_ = state::head;
  std::size_t consumed_ = 0;
  std::size_t size_ = 0;
  std::string summary_;
  std::string data_;
  std::string trailer_names_;
};

}  // namespace gyre::http::test
