// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/answer_reader.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

namespace lab::http {
namespace {

constexpr std::string_view head_end = "\r\n\r\n";
constexpr std::size_t longest_head = 8192;

constexpr std::string_view token_marks = "!#$%&'*+-.^_`|~";

bool is_token(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 || token_marks.contains(each);
  });
}

bool is_value(std::string_view value) {
  return std::ranges::all_of(value, [](char each) {
    const auto code = static_cast<unsigned char>(each);
    return code == '\t' || (code >= 0x20 && code != 0x7F);
  });
}

bool is_named(std::string_view name, std::string_view lower) {
  return std::ranges::equal(name, lower, [](char left, char right) {
    return std::tolower(static_cast<unsigned char>(left)) == right;
  });
}

std::string_view trimmed(std::string_view value) {
  const std::size_t first = value.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return value.substr(first, value.find_last_not_of(" \t") - first + 1);
}

// The fields that the check counts.
struct seen_fields {
  int lengths = 0;
  int dates = 0;
  int types = 0;
  bool keeps_length = false;
  bool closes = false;
  bool is_coded = false;
};

std::string read_field(std::string_view line, std::size_t body_bytes, seen_fields& seen) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return "a bad field";
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_value(value)) return "a bad value";
  if (is_named(name, "content-length")) {
    ++seen.lengths;
    seen.keeps_length = value == std::to_string(body_bytes);
  } else if (is_named(name, "date")) {
    ++seen.dates;
    if (value.size() != 29 || !value.ends_with(" GMT")) return "a bad Date";
  } else if (is_named(name, "content-type")) {
    ++seen.types;
  } else if (is_named(name, "transfer-encoding")) {
    seen.is_coded = true;
  } else if (is_named(name, "connection")) {
    seen.closes = is_named(value, "close");
  }
  return {};
}

}  // namespace

std::string check_head(std::string_view head, std::size_t body_bytes,
                       const expected_answer& expected) {
  if (!head.starts_with("HTTP/1.1 200 ") || !head.ends_with(head_end)) return "a bad status line";
  std::size_t begin = head.find("\r\n");
  if (!is_value(head.substr(0, begin))) return "a bad status line";
  seen_fields seen;
  for (begin += 2; begin + 2 < head.size();) {
    const std::size_t end = head.find("\r\n", begin);
    std::string mistake = read_field(head.substr(begin, end - begin), body_bytes, seen);
    if (!mistake.empty()) return mistake;
    begin = end + 2;
  }
  if (seen.is_coded) return "a Transfer-Encoding";
  if (seen.lengths != 1 || !seen.keeps_length) return "not one Content-Length of the body";
  if (seen.dates != 1 || seen.types != 1) return "not one Date and one Content-Type";
  if (seen.closes != expected.closes) {
    return expected.closes ? "no `Connection: close`" : "an unexpected `Connection: close`";
  }
  return {};
}

// Returns the number of bytes of `data` that were used; 0 means a mistake.
std::size_t answer_reader::read_head(std::string_view data, head_checker& heads) {
  if (partial_.empty()) {
    if (const std::size_t size = heads.known(data)) return size;
  }
  const std::size_t before = partial_.size();
  const std::size_t take = std::min(data.size(), longest_head - before);
  partial_.append(data.substr(0, take));
  const std::size_t from = before < head_end.size() ? 0 : before - head_end.size() + 1;
  const std::size_t end = partial_.find(head_end, from);
  if (end == std::string::npos) {
    if (partial_.size() == longest_head) mistake_ = "a head of 8 KiB";
    return mistake_.empty() ? take : 0;
  }
  partial_.resize(end + head_end.size());
  const std::size_t used = partial_.size() - before;
  mistake_ = heads.check(partial_, body_.size());
  if (!mistake_.empty()) return 0;
  partial_.clear();
  return used;
}

std::size_t answer_reader::read(std::string_view data, std::size_t outstanding,
                                head_checker& heads) {
  std::size_t complete = 0;
  while (!data.empty()) {
    if (left_ == 0) {
      if (complete == outstanding) {
        mistake_ = "bytes that nothing has asked for";
        return complete;
      }
      const std::size_t used = read_head(data, heads);
      if (!mistake_.empty()) return complete;
      data.remove_prefix(used);
      if (!partial_.empty()) return complete;
      left_ = body_.size();
    }
    const std::size_t size = std::min(left_, data.size());
    if (std::memcmp(data.data(), body_.data() + body_.size() - left_, size) != 0) {
      mistake_ = "a body that differs";
      return complete;
    }
    data.remove_prefix(size);
    left_ -= size;
    if (left_ == 0) ++complete;
  }
  return complete;
}

}  // namespace lab::http
