// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/argument_traits.hpp>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

namespace gyre::postgres {
namespace {

using finite_kind = detail::count_since_epoch::kind;

template <class Number>
void write_number_as_text(argument_writer& output, Number number) {
  char text[64];
  const auto end = std::to_chars(std::begin(text), std::end(text), number).ptr;
  output.write_text(std::string_view(text, end));
}

template <class Target, class Number>
void write_in_range(argument_writer& output, Number number) {
  if (!std::in_range<Target>(number)) output.throw_out_of_range(std::to_string(number));
  output.write_binary(static_cast<Target>(number));
}

template <class Real, class Number>
void write_exact(argument_writer& output, Number number) {
  const auto real = static_cast<Real>(number);
  // The limit is 2^64 or 2^63: a real number, but no integer of the type.
  constexpr auto limit = static_cast<Real>(std::numeric_limits<Number>::max());
  if (real >= limit || static_cast<Number>(real) != number) {
    output.throw_out_of_range(std::to_string(number));
  }
  if constexpr (sizeof(Real) == sizeof(std::uint64_t)) {
    output.write_binary(std::bit_cast<std::uint64_t>(real));
  } else {
    output.write_binary(std::bit_cast<std::uint32_t>(real));
  }
}

template <class Number>
void write_any_integer(argument_writer& output, Number number) {
  switch (output.type()) {
    case oids::int2: return write_in_range<std::int16_t>(output, number);
    case oids::int4: return write_in_range<std::int32_t>(output, number);
    case oids::int8: return write_in_range<std::int64_t>(output, number);
    case oids::object_id:
    case oids::xid: return write_in_range<std::uint32_t>(output, number);
    case oids::float4: return write_exact<float>(output, number);
    case oids::float8: return write_exact<double>(output, number);
    case oids::boolean: output.throw_unsupported("an integer");
    default: return write_number_as_text(output, number);
  }
}

}  // namespace

namespace detail {

void write_integer(argument_writer& output, std::int64_t number) {
  write_any_integer(output, number);
}

void write_integer(argument_writer& output, std::uint64_t number) {
  write_any_integer(output, number);
}

void write_real(argument_writer& output, double number) {
  if (output.type() == oids::float8) {
    return output.write_binary(std::bit_cast<std::uint64_t>(number));
  }
  if (output.type() == oids::float4) {
    const auto narrow_number = static_cast<float>(number);
    if (std::isinf(narrow_number) && !std::isinf(number)) {
      output.throw_out_of_range(std::to_string(number));
    }
    return output.write_binary(std::bit_cast<std::uint32_t>(narrow_number));
  }
  if (std::isnan(number)) return output.write_text("NaN");
  if (std::isinf(number)) return output.write_text(number > 0 ? "Infinity" : "-Infinity");
  if (output.type() != oids::numeric) return write_number_as_text(output, number);
  // The number is written without an exponent.
  std::array<char, 1100> text;
  const auto end = std::to_chars(text.begin(), text.end(), number, std::chars_format::fixed).ptr;
  output.write_text(std::string_view(text.data(), end));
}

void write_real(argument_writer& output, float number) {
  if (output.type() == oids::float4 || output.type() == oids::float8) {
    return write_real(output, static_cast<double>(number));
  }
  // The text of a float is shorter than the text of the same value as a double.
  if (std::isfinite(number) && output.type() != oids::numeric) {
    return write_number_as_text(output, number);
  }
  if (!std::isfinite(number)) return write_real(output, static_cast<double>(number));
  std::array<char, 200> text;
  const auto end = std::to_chars(text.begin(), text.end(), number, std::chars_format::fixed).ptr;
  output.write_text(std::string_view(text.data(), end));
}

void write_text(argument_writer& output, std::string_view text) {
  if (output.type() == oids::bytea) return output.write_binary(std::as_bytes(std::span(text)));
  output.write_text(text);
}

void write_timestamp(argument_writer& output, oid type, const count_since_epoch& time,
                     const char* name) {
  if (output.type() != type) output.throw_unsupported(name);
  using limits = std::numeric_limits<std::int64_t>;
  switch (time.which) {
    case finite_kind::infinite: return output.write_binary(limits::max());
    case finite_kind::negative_infinite: return output.write_binary(limits::min());
    case finite_kind::out_of_range: break;
    case finite_kind::finite:
      if (time.count < limits::min() + detail::epoch_microseconds + 1) break;
      return output.write_binary(time.count - detail::epoch_microseconds);
  }
  output.throw_out_of_range("a time beyond the years of PostgreSQL");
}

void write_date(argument_writer& output, const count_since_epoch& days, const char* name) {
  if (output.type() != oids::date) output.throw_unsupported(name);
  using limits = std::numeric_limits<std::int32_t>;
  switch (days.which) {
    case finite_kind::infinite: return output.write_binary(limits::max());
    case finite_kind::negative_infinite: return output.write_binary(limits::min());
    case finite_kind::out_of_range: break;
    case finite_kind::finite: {
      if (days.count <= limits::min() + detail::epoch_days || days.count >= limits::max()) break;
      return output.write_binary(static_cast<std::int32_t>(days.count - detail::epoch_days));
    }
  }
  output.throw_out_of_range("a date beyond the years of PostgreSQL");
}

}  // namespace detail

void argument_traits<bool>::write(argument_writer& output, bool value) {
  if (output.type() == oids::boolean) {
    return output.write_binary(static_cast<std::uint8_t>(value ? 1 : 0));
  }
  if (!detail::is_text_type(output.type())) output.throw_unsupported("a bool");
  output.write_text(value ? "true" : "false");
}

void argument_traits<std::span<const std::byte>>::write(argument_writer& output,
                                                        std::span<const std::byte> bytes) {
  if (output.type() != oids::bytea) output.throw_unsupported("bytes");
  output.write_binary(bytes);
}

void argument_traits<numeric>::write(argument_writer& output, const numeric& number) {
  output.write_text(number.text());
}

void argument_traits<json>::write(argument_writer& output, const json& value) {
  output.write_text(value.text);
}

void argument_traits<uuid>::write(argument_writer& output, const uuid& value) {
  if (output.type() == oids::uuid) {
    return output.write_binary(std::span<const std::byte>(value.bytes()));
  }
  if (!detail::is_text_type(output.type())) output.throw_unsupported("a uuid");
  output.write_text(value.to_string());
}

void argument_traits<interval>::write(argument_writer& output, const interval& value) {
  if (output.type() != oids::interval) output.throw_unsupported("an interval");
  std::array<std::byte, 16> bytes;
  store_be(bytes.data(), static_cast<std::uint64_t>(value.time.count()));
  store_be(bytes.data() + 8, static_cast<std::uint32_t>(value.days));
  store_be(bytes.data() + 12, static_cast<std::uint32_t>(value.months));
  output.write_binary(std::span<const std::byte>(bytes));
}

void argument_traits<net::ip_address>::write(argument_writer& output,
                                             const net::ip_address& address) {
  if (output.type() != oids::inet) {
    if (!detail::is_text_type(output.type())) output.throw_unsupported("an ip_address");
    return output.write_text(address.to_string());
  }
  const std::span<const std::uint8_t> address_bytes = address.bytes();
  std::array<std::byte, 20> bytes;
  // PostgreSQL's numbers of address families differ from the system's.
  bytes[0] = address.is_v4() ? std::byte{2} : std::byte{3};
  bytes[1] = static_cast<std::byte>(address_bytes.size() * 8);
  bytes[2] = std::byte{0};
  bytes[3] = static_cast<std::byte>(address_bytes.size());
  std::memcpy(bytes.data() + 4, address_bytes.data(), address_bytes.size());
  output.write_binary(std::span<const std::byte>(bytes).first(4 + address_bytes.size()));
}

void argument_traits<std::chrono::year_month_day>::write(argument_writer& output,
                                                         const std::chrono::year_month_day& date) {
  if (!date.ok()) output.throw_out_of_range("a date that the calendar does not have");
  detail::write_date(output, detail::days_of(std::chrono::sys_days(date).time_since_epoch()),
                     "a year_month_day");
}

void argument_traits<std::chrono::hh_mm_ss<std::chrono::microseconds>>::write(
    argument_writer& output, const std::chrono::hh_mm_ss<std::chrono::microseconds>& time) {
  if (output.type() != oids::time) output.throw_unsupported("an hh_mm_ss");
  const std::chrono::microseconds since_midnight = time.to_duration();
  if (since_midnight < since_midnight.zero() || since_midnight > std::chrono::hours{24}) {
    output.throw_out_of_range(std::to_string(since_midnight.count()) + " microseconds");
  }
  output.write_binary(static_cast<std::int64_t>(since_midnight.count()));
}

}  // namespace gyre::postgres
