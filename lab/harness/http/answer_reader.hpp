// SPDX-License-Identifier: Apache-2.0
// The check of answers: reads the bytes of one connection, and compares each body byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab::http {

/// The answers that a load expects.
struct expected_answer {
  bool closes = false;  ///< each says `Connection: close`; otherwise none does
};

/// Checks one head: the status 200 of HTTP/1.1, whole lines, names of token characters and values
/// without controls, one Content-Length, which is `body_bytes`, one Date, a Content-Type, and no
/// Transfer-Encoding. Returns an empty text, or the mistake.
std::string check_head(std::string_view head, std::size_t body_bytes,
                       const expected_answer& expected);

/// The last head that was right: a head with the same bytes needs no other check.
class head_checker {
 public:
  explicit head_checker(expected_answer expected) : expected_(expected) {}

  /// The size of the head at the front of `data`, if it is the same as the last one; or 0.
  std::size_t known(std::string_view data) const {
    return !last_.empty() && data.starts_with(last_) ? last_.size() : 0;
  }
  std::string check(std::string_view head, std::size_t body_bytes) {
    std::string mistake = check_head(head, body_bytes, expected_);
    if (mistake.empty()) last_ = head;
    return mistake;
  }

 private:
  expected_answer expected_;
  std::string last_;
};

/// The answers of one connection, all with the same body.
class answer_reader {
 public:
  /// Lifetime: `body` must outlive the reader.
  explicit answer_reader(std::string_view body) : body_(body) {}

  /// Reads what has come, of at most `outstanding` answers. Returns the number of answers that are
  /// complete now; the load is wrong when mistake() is no longer empty.
  std::size_t read(std::string_view data, std::size_t outstanding, head_checker& heads);

  /// Whether the connection is between two answers.
  bool between() const { return left_ == 0 && partial_.empty(); }
  const std::string& mistake() const { return mistake_; }

 private:
  std::size_t read_head(std::string_view data, head_checker& heads);

  std::string_view body_;
  std::size_t left_ = 0;  // bytes of the body that have not come
  std::string partial_;   // the beginning of a head
  std::string mistake_;
};

}  // namespace lab::http
