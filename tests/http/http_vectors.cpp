// SPDX-License-Identifier: Apache-2.0
#include <tests/http/http_vectors.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <utility>

namespace gyre::http::test {
namespace {

using detail::body_kind;

constexpr std::array<std::pair<errc, std::string_view>, 18> names{{
    {errc::bad_start_line, "bad_start_line"},
    {errc::bad_method, "bad_method"},
    {errc::bad_target, "bad_target"},
    {errc::target_too_long, "target_too_long"},
    {errc::unsupported_version, "unsupported_version"},
    {errc::bad_field, "bad_field"},
    {errc::bare_line_end, "bare_line_end"},
    {errc::fields_too_large, "fields_too_large"},
    {errc::bad_host, "bad_host"},
    {errc::bad_length, "bad_length"},
    {errc::ambiguous_length, "ambiguous_length"},
    {errc::bad_transfer_coding, "bad_transfer_coding"},
    {errc::unknown_transfer_coding, "unknown_transfer_coding"},
    {errc::bad_chunk, "bad_chunk"},
    {errc::unknown_expectation, "unknown_expectation"},
    {errc::body_too_large, "body_too_large"},
    {errc::truncated, "truncated"},
    {errc::timed_out, "timed_out"},
}};

std::size_t number_at(std::string_view text, std::size_t at, std::size_t count, int base) {
  std::size_t number = 0;
  const std::string_view digits = text.substr(at, count);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || end.ptr != digits.data() + digits.size()) {
    throw std::runtime_error("bad number in an escape");
  }
  return number;
}

// Turns \r \n \t \0 \\ \xHH and \*N{text} into bytes.
std::string unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
      continue;
    }
    if (++at == text.size()) throw std::runtime_error("an escape ends too early");
    switch (text[at]) {
      case 'r': bytes += '\r'; break;
      case 'n': bytes += '\n'; break;
      case 't': bytes += '\t'; break;
      case '0': bytes += '\0'; break;
      case '\\': bytes += '\\'; break;
      case 'x':
        bytes += static_cast<char>(number_at(text, at + 1, 2, 16));
        at += 2;
        break;
      case '*': {
        const std::size_t open = text.find('{', at);
        const std::size_t close = text.find('}', at);
        if (open > close || close == std::string_view::npos) {
          throw std::runtime_error("a repetition has no braces");
        }
        const std::string part = unescaped(text.substr(open + 1, close - open - 1));
        for (std::size_t n = number_at(text, at + 1, open - at - 1, 10); n != 0; --n) bytes += part;
        at = close;
        break;
      }
      default: throw std::runtime_error("an unknown escape");
    }
  }
  return bytes;
}

void read_line(std::string_view line, std::vector<http_vector>& vectors) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) throw std::runtime_error("a line has no key");
  const std::string_view key = line.substr(0, colon);
  const std::string_view value = line.substr(colon + 2);
  if (key == "name") vectors.emplace_back().name = value;
  if (vectors.empty()) throw std::runtime_error("a vector has no name");
  http_vector& last = vectors.back();
  if (key == "source") {
    last.source = value;
  } else if (key == "direction") {
    last.direction = value;
  } else if (key == "bytes") {
    last.bytes += unescaped(value);
  } else if (key == "expect") {
    last.expected = value;
  } else if (key != "name") {
    throw std::runtime_error("an unknown key");
  }
}

// Long targets by their size.
std::string shortened(std::string_view target) {
  if (target.size() <= 80) return std::string(target);
  return '(' + std::to_string(target.size()) + " bytes)";
}

}  // namespace

std::vector<http_vector> read_http_vectors() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(GYRE_HTTP_VECTORS)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<http_vector> vectors;
  for (const auto& path : paths) {
    std::ifstream file(path);
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
      if (line.empty() || line.starts_with('#')) continue;
      try {
        read_line(line, vectors);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(path.string() + ':' + std::to_string(number) + ": " +
                                 error.what());
      }
    }
  }
  return vectors;
}

std::string escaped(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char each : bytes) {
    const auto code = static_cast<unsigned char>(each);
    if (each == '\r') {
      text += "\\r";
    } else if (each == '\n') {
      text += "\\n";
    } else if (code < 0x20 || code >= 0x7F || each == '\\') {
      text += "\\x";
      text += digits[code >> 4U];
      text += digits[code & 15U];
    } else {
      text += each;
    }
  }
  return text;
}

std::string_view name_of(errc code) {
  const auto* const found =
      std::ranges::find(names, code, [](const auto& each) { return each.first; });
  return found == names.end() ? "unknown" : found->second;
}

message_judge::message_judge(std::string_view direction) {
  const std::size_t space = direction.find(' ');
  const std::string_view kind = direction.substr(0, space);
  is_request_ = kind == "request";
  method_ = space == std::string_view::npos ? "GET" : std::string(direction.substr(space + 1));
  if (kind == "chunked") {
    summary_ = "accept";
    begin_body({.body = body_kind::chunked});
  }
}

void message_judge::refuse(errc code) {
  summary_ = "refuse " + std::string(name_of(code));
  state_ = state::refused;
}

void message_judge::begin_body(const detail::message_framing& framing) {
  const errc error = reader_.begin(framing, detail::message_reader::unlimited);
  if (error != errc{}) return refuse(error);
  state_ = reader_.expects_body() ? state::body : state::done;
}

void message_judge::add_framing(const detail::message_framing& framing) {
  summary_ +=
      " fields=" + std::to_string(is_request_ ? request_.fields.size() : response_.fields.size());
  switch (framing.body) {
    case body_kind::none: summary_ += " body=none"; break;
    case body_kind::length: summary_ += " body=" + std::to_string(framing.length); break;
    case body_kind::chunked: summary_ += " body=chunked"; break;
    case body_kind::until_close: summary_ += " body=until_close"; break;
  }
  begin_body(framing);
  summary_ += framing.keep_alive ? " keep" : " close";
  if (framing.upgrade) summary_ += " upgrade";
}

void message_judge::read_head(std::span<char> bytes) {
  const auto size = scanner_.find_end(std::string_view(bytes.data(), bytes.size()), limits_);
  if (!size) return refuse(size.error());
  if (*size == 0) return;
  consumed_ = *size;
  const std::span<char> head = bytes.first(*size);
  if (is_request_) {
    const errc error =
        parse_request_head(std::string_view(head.data(), head.size()), limits_, request_);
    if (error != errc{}) return refuse(error);
    summary_ = "accept " + std::string(request_.method) + ' ' + shortened(request_.target) + " 1." +
               std::to_string(request_.framing.minor_version) + " host=[" +
               std::string(request_.host) + ']';
    add_framing(request_.framing);
    if (request_.expect_continue) summary_ += " expect";
  } else {
    const errc error = parse_response_head(head, limits_, method_, response_);
    if (error != errc{}) return refuse(error);
    summary_ = "accept " + std::to_string(response_.status) + " [" + escaped(response_.reason) +
               "] 1." + std::to_string(response_.framing.minor_version);
    add_framing(response_.framing);
  }
}

void message_judge::read_body(std::string_view bytes) {
  io::input input(bytes);
  while (reader_.expects_body()) {
    const auto piece = reader_.next(input, limits_);
    if (!piece) return refuse(piece.error());
    if (piece->empty()) break;
    data_ += io::input(*piece).text();
  }
  consumed_ += bytes.size() - input.size();
  if (reader_.expects_body()) return;
  state_ = state::done;
  for (const field& each : reader_.trailers()) {
    trailer_names_ += ' ' + std::string(each.name) + '=' + std::string(each.value);
  }
}

// A copy in memory of its own for each call, so that AddressSanitizer notices reads behind its end,
// and views that are kept for too long.
bool message_judge::feed(std::string_view so_far) {
  size_ = so_far.size();
  const std::string_view rest = so_far.substr(consumed_);
  std::vector<char> copy(rest.begin(), rest.end());
  const std::string_view bytes(copy.data(), copy.size());
  const std::size_t before = consumed_;
  if (state_ == state::head) read_head(copy);
  const std::string_view body = bytes.substr(consumed_ - before);
  if (state_ == state::body) read_body(body);
  return state_ != state::refused;
}

std::string message_judge::verdict() const {
  if (state_ == state::refused) return summary_;
  detail::message_reader at_end = reader_;
  if (state_ == state::head || at_end.end_input() != errc{}) return "incomplete";
  std::string text = summary_;
  if (!data_.empty()) text += " data=[" + escaped(data_) + ']';
  if (!trailer_names_.empty()) text += " trailers:" + trailer_names_;
  if (size_ != consumed_) text += " left=" + std::to_string(size_ - consumed_);
  return text;
}

}  // namespace gyre::http::test
