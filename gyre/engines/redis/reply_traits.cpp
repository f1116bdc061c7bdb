// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/reply_traits.hpp>

#include <charconv>
#include <cstring>
#include <system_error>

namespace gyre::redis {
namespace {

const char* name_of(reply_kind kind) noexcept {
  switch (kind) {
    case reply_kind::null: return "nil";
    case reply_kind::boolean: return "a boolean";
    case reply_kind::integer: return "an integer";
    case reply_kind::real: return "a real number";
    case reply_kind::big_number: return "a big number";
    case reply_kind::status: return "a status";
    case reply_kind::text: return "a text";
    case reply_kind::error: return "an error";
    case reply_kind::array: return "an array";
    case reply_kind::set: return "a set";
    case reply_kind::map: return "a map";
    case reply_kind::push: return "a message";
  }
  return "unknown";
}

// Returns the beginning of a text, to identify it in a message.
std::string excerpt_of(std::string_view text) {
  constexpr std::size_t max_size = 40;
  return '"' + std::string(text.substr(0, max_size)) + (text.size() > max_size ? "…\"" : "\"");
}

[[noreturn, gnu::cold]] void throw_out_of_range(const reply_node& node) {
  throw std::system_error(make_error_code(errc::out_of_range), node.kind == reply_kind::integer
                                                                   ? std::to_string(node.integer)
                                                                   : excerpt_of(node.text));
}

// Returns the number that the text of `node` spells. `type`: its name in errors.
template <class Number>
Number number_of(const reply_node& node, const char* type) {
  std::string_view text = detail::to_text(node);
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  if (error == std::errc::result_out_of_range) throw_out_of_range(node);
  if (error != std::errc{} || end != text_end) detail::throw_unexpected(node, type);
  return number;
}

}  // namespace

void reply_traits<void>::read(reply_cursor& values) {
  if (const reply_node node = values.peek(); node.kind == reply_kind::error) {
    throw server_error(std::string(node.text));
  }
  values.skip();
}

namespace detail {

void throw_unexpected(const reply_node& node, const char* type) {
  if (node.kind == reply_kind::error) throw server_error(std::string(node.text));
  const errc code = node.kind == reply_kind::null ? errc::null_reply : errc::unexpected_type;
  std::string message = std::string(name_of(node.kind)) + " instead of " + type;
  if (node.kind == reply_kind::status || node.kind == reply_kind::text) {
    message += ": " + excerpt_of(node.text);
  }
  throw std::system_error(make_error_code(code), message);
}

void throw_wrong_count(std::size_t count, std::size_t expected_count) {
  throw std::system_error(
      make_error_code(errc::unexpected_type),
      std::to_string(count) + " values instead of " + std::to_string(expected_count));
}

std::string_view to_text(const reply_node& node) {
  switch (node.kind) {
    case reply_kind::status:
    case reply_kind::text:
    case reply_kind::big_number: return node.text;
    default: throw_unexpected(node, "a text");
  }
}

std::int64_t to_integer(const reply_node& node, std::int64_t min, std::uint64_t max) {
  const bool is_integer = node.kind == reply_kind::integer || node.kind == reply_kind::boolean;
  const std::int64_t number =
      is_integer ? node.integer : number_of<std::int64_t>(node, "an integer");
  if (number < min || (number > 0 && static_cast<std::uint64_t>(number) > max)) {
    throw_out_of_range(node);
  }
  return number;
}

std::uint64_t to_unsigned(const reply_node& node, std::uint64_t max) {
  const bool is_integer = node.kind == reply_kind::integer || node.kind == reply_kind::boolean;
  if (is_integer && node.integer < 0) throw_out_of_range(node);
  const std::uint64_t number = is_integer ? static_cast<std::uint64_t>(node.integer)
                                          : number_of<std::uint64_t>(node, "an integer");
  if (number > max) throw_out_of_range(node);
  return number;
}

double to_real(const reply_node& node) {
  switch (node.kind) {
    case reply_kind::integer: return static_cast<double>(node.integer);
    case reply_kind::real: {
      reply_node text = node;
      text.kind = reply_kind::text;
      return number_of<double>(text, "a real number");
    }
    default: return number_of<double>(node, "a real number");
  }
}

bool to_boolean(const reply_node& node) {
  switch (node.kind) {
    case reply_kind::null: return false;
    case reply_kind::boolean: return node.integer != 0;
    case reply_kind::integer:
      if (node.integer != 0 && node.integer != 1) throw_out_of_range(node);
      return node.integer == 1;
    case reply_kind::status:
      if (node.text == "OK") return true;
      [[fallthrough]];
    default: throw_unexpected(node, "a boolean");
  }
}

std::size_t to_count(const reply_node& node) {
  switch (node.kind) {
    case reply_kind::array:
    case reply_kind::set:
    case reply_kind::push: return node.count;
    default: throw_unexpected(node, "an array");
  }
}

}  // namespace detail

}  // namespace gyre::redis
