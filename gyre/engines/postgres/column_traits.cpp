// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/column_traits.hpp>

#include <gyre/engines/postgres/detail/numeric_codec.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace gyre::postgres {
namespace {

using detail::whole_number;

template <class Unsigned>
auto load_signed(const std::byte* bytes) noexcept {
  return static_cast<std::make_signed_t<Unsigned>>(load_be<Unsigned>(bytes));
}

std::string numeric_text(const column_value& value) {
  std::optional<std::string> text = detail::read_numeric(value.bytes());
  if (!text) value.throw_malformed();
  return std::move(*text);
}

whole_number whole(std::int64_t number) noexcept {
  const auto bits = static_cast<std::uint64_t>(number);
  return {number < 0, number < 0 ? std::uint64_t{0} - bits : bits};
}

whole_number read_whole(const column_value& value) {
  if (!value.is_binary()) value.throw_unsupported("an integer");
  switch (value.type()) {
    case oids::int2: return whole(load_signed<std::uint16_t>(value.bytes(2)));
    case oids::int4: return whole(load_signed<std::uint32_t>(value.bytes(4)));
    case oids::int8: return whole(load_signed<std::uint64_t>(value.bytes(8)));
    case oids::object_id:
    case oids::xid: return {false, load_be<std::uint32_t>(value.bytes(4))};
    case oids::numeric: {
      const std::string text = numeric_text(value);
      const std::optional<whole_number> number = detail::to_whole_number(text);
      if (!number) value.throw_out_of_range(text);
      return *number;
    }
    default: value.throw_unsupported("an integer");
  }
}

std::string text_of(const whole_number& number) {
  std::string text = std::to_string(number.magnitude);
  if (number.is_negative) text.insert(text.begin(), '-');
  return text;
}

double load_double(const column_value& value) {
  return std::bit_cast<double>(load_be<std::uint64_t>(value.bytes(8)));
}
float load_float(const column_value& value) {
  return std::bit_cast<float>(load_be<std::uint32_t>(value.bytes(4)));
}

// Converts an integer to a real number. Throws if the conversion is not exact.
template <class Real>
Real real_of_integer(const column_value& value) {
  const whole_number number = read_whole(value);
  const auto real = static_cast<Real>(number.magnitude);
  constexpr auto limit = static_cast<Real>(std::numeric_limits<std::uint64_t>::max());
  if (real >= limit || static_cast<std::uint64_t>(real) != number.magnitude) {
    value.throw_out_of_range(text_of(number));
  }
  return number.is_negative ? -real : real;
}

}  // namespace

namespace detail {

bool is_read_as_binary(oid type) noexcept {
  switch (type) {
    case oids::boolean:
    case oids::bytea:
    case oids::name:
    case oids::int8:
    case oids::int2:
    case oids::int4:
    case oids::text:
    case oids::object_id:
    case oids::xid:
    case oids::json:
    case oids::xml:
    case oids::float4:
    case oids::float8:
    case oids::inet:
    case oids::bpchar:
    case oids::varchar:
    case oids::date:
    case oids::time:
    case oids::timestamp:
    case oids::timestamptz:
    case oids::interval:
    case oids::numeric:
    case oids::uuid:
    case oids::jsonb: return true;
    default: return element_type(type) != 0;
  }
}

std::int64_t read_integer(const column_value& value, std::int64_t min, std::int64_t max) {
  const whole_number number = read_whole(value);
  const std::uint64_t limit = number.is_negative ? whole(min).magnitude : whole(max).magnitude;
  if (number.magnitude > limit) value.throw_out_of_range(text_of(number));
  return static_cast<std::int64_t>(number.is_negative ? std::uint64_t{0} - number.magnitude
                                                      : number.magnitude);
}

std::uint64_t read_unsigned(const column_value& value, std::uint64_t max) {
  const whole_number number = read_whole(value);
  if (number.is_negative || number.magnitude > max) value.throw_out_of_range(text_of(number));
  return number.magnitude;
}

count_since_epoch read_timestamp(const column_value& value, oid type, const char* name) {
  using kind = count_since_epoch::kind;
  using limits = std::numeric_limits<std::int64_t>;
  if (!value.is_binary(type)) value.throw_unsupported(name);
  const std::int64_t count = load_signed<std::uint64_t>(value.bytes(8));
  if (count == limits::max()) return {kind::infinite, 0};
  if (count == limits::min()) return {kind::negative_infinite, 0};
  if (count > limits::max() - detail::epoch_microseconds) return {kind::out_of_range, 0};
  return {kind::finite, count + detail::epoch_microseconds};
}

std::chrono::days read_days(const column_value& value, const char* name) {
  using limits = std::numeric_limits<std::int32_t>;
  using std::chrono::days;
  if (!value.is_binary(oids::date)) value.throw_unsupported(name);
  const std::int64_t count = load_signed<std::uint32_t>(value.bytes(4));
  if (count == limits::max()) return days::max();
  if (count == limits::min()) return days::min();
  return days(static_cast<days::rep>(count + detail::epoch_days));
}

std::chrono::microseconds read_time_of_day(const column_value& value) {
  if (!value.is_binary(oids::time)) value.throw_unsupported("an hh_mm_ss");
  const std::chrono::microseconds time(load_signed<std::uint64_t>(value.bytes(8)));
  if (time < time.zero() || time > std::chrono::hours{24}) value.throw_malformed();
  return time;
}

array_reader::array_reader(const column_value& value) : array_(value), rest_(value.bytes()) {
  if (!value.is_binary()) {
    std::optional<text_array> texts = parse_text_array(value.text());
    if (!texts) value.throw_unsupported("a vector");
    texts_ = std::move(*texts);
    size_ = texts_.size();
    return;
  }
  if (element_type(value.type()) == 0) value.throw_unsupported("a vector");
  constexpr std::size_t header_size = 3 * sizeof(std::int32_t);
  constexpr std::size_t dimension_size = 2 * sizeof(std::int32_t);
  if (rest_.size() < header_size) value.throw_malformed();
  const auto dimensions = load_be<std::uint32_t>(rest_.data());
  element_type_ = load_be<std::uint32_t>(rest_.data() + 2 * sizeof(std::int32_t));
  rest_ = rest_.subspan(header_size);
  if (dimensions == 0) {
    if (!rest_.empty()) value.throw_malformed();
    return;
  }
  constexpr std::uint32_t most_dimensions = 6;
  if (dimensions > most_dimensions || rest_.size() < dimension_size) value.throw_malformed();
  if (dimensions > 1) value.throw_unsupported("a vector: it has more than one dimension");
  size_ = load_be<std::uint32_t>(rest_.data());
  rest_ = rest_.subspan(dimension_size);
  // Each element needs at least the bytes of its size.
  if (size_ > rest_.size() / sizeof(std::int32_t)) value.throw_malformed();
}

column_value array_reader::next_text() noexcept {
  const std::optional<std::string>& text = texts_[next_text_++];
  if (!text) return array_.element(array_.type(), true, {});
  return array_.element(array_.type(), false, std::as_bytes(std::span(*text)));
}

column_value array_reader::next() {
  if (!array_.is_binary()) return next_text();
  if (rest_.size() < sizeof(std::int32_t)) array_.throw_malformed();
  const auto size = static_cast<std::int32_t>(load_be<std::uint32_t>(rest_.data()));
  rest_ = rest_.subspan(sizeof(size));
  if (size == -1) return array_.element(element_type_, true, {});
  if (size < 0 || static_cast<std::size_t>(size) > rest_.size()) array_.throw_malformed();
  const auto bytes = rest_.first(static_cast<std::size_t>(size));
  rest_ = rest_.subspan(bytes.size());
  return array_.element(element_type_, false, bytes);
}

}  // namespace detail

bool column_traits<bool>::read(const column_value& value) {
  if (!value.is_binary(oids::boolean)) value.throw_unsupported("a bool");
  return *value.bytes(1) != std::byte{0};
}

double column_traits<double>::read(const column_value& value) {
  if (!value.is_binary()) value.throw_unsupported("a double");
  switch (value.type()) {
    case oids::float8: return load_double(value);
    case oids::float4: return static_cast<double>(load_float(value));
    case oids::numeric: return detail::to_double(numeric_text(value));
    case oids::int2:
    case oids::int4:
    case oids::int8: return real_of_integer<double>(value);
    default: value.throw_unsupported("a double");
  }
}

float column_traits<float>::read(const column_value& value) {
  if (!value.is_binary()) value.throw_unsupported("a float");
  switch (value.type()) {
    case oids::float4: return load_float(value);
    case oids::float8: {
      const double number = load_double(value);
      const auto narrow_number = static_cast<float>(number);
      if (!std::isnan(number) && static_cast<double>(narrow_number) != number) {
        value.throw_out_of_range(std::to_string(number) + ", which a double can hold");
      }
      return narrow_number;
    }
    case oids::numeric: return static_cast<float>(detail::to_double(numeric_text(value)));
    case oids::int2:
    case oids::int4:
    case oids::int8: return real_of_integer<float>(value);
    default: value.throw_unsupported("a float");
  }
}

std::string column_traits<std::string>::read(const column_value& value) {
  if (value.is_binary() && !detail::is_text_type(value.type()) && value.type() != oids::bytea) {
    if (value.type() == oids::jsonb) return json(column_traits<json>::read(value)).text;
    value.throw_unsupported("a std::string");
  }
  return std::string(value.text());
}

std::vector<std::byte> column_traits<std::vector<std::byte>>::read(const column_value& value) {
  if (!value.is_binary(oids::bytea)) value.throw_unsupported("bytes");
  const std::span<const std::byte> bytes = value.bytes();
  return {bytes.begin(), bytes.end()};
}

numeric column_traits<numeric>::read(const column_value& value) {
  if (!value.is_binary()) value.throw_unsupported("a numeric");
  switch (value.type()) {
    case oids::numeric: return numeric(numeric_text(value));
    case oids::int2:
    case oids::int4:
    case oids::int8: return numeric(text_of(read_whole(value)));
    default: value.throw_unsupported("a numeric");
  }
}

json column_traits<json>::read(const column_value& value) {
  if (value.is_binary(oids::json)) return {std::string(value.text())};
  if (!value.is_binary(oids::jsonb)) value.throw_unsupported("a json");
  constexpr char version = 1;
  const std::string_view text = value.text();
  if (!text.starts_with(version)) value.throw_malformed();
  return {std::string(text.substr(1))};
}

uuid column_traits<uuid>::read(const column_value& value) {
  if (!value.is_binary(oids::uuid)) value.throw_unsupported("a uuid");
  uuid::byte_array bytes;
  std::memcpy(bytes.data(), value.bytes(bytes.size()), bytes.size());
  return uuid(bytes);
}

interval column_traits<interval>::read(const column_value& value) {
  if (!value.is_binary(oids::interval)) value.throw_unsupported("an interval");
  const std::byte* const bytes = value.bytes(16);
  return {.months = load_signed<std::uint32_t>(bytes + 12),
          .days = load_signed<std::uint32_t>(bytes + 8),
          .time = std::chrono::microseconds(load_signed<std::uint64_t>(bytes))};
}

net::ip_address column_traits<net::ip_address>::read(const column_value& value) {
  if (!value.is_binary(oids::inet)) value.throw_unsupported("an ip_address");
  const std::span<const std::byte> bytes = value.bytes();
  constexpr std::size_t header_size = 4;
  if (bytes.size() < header_size) value.throw_malformed();
  const bool is_v4 = bytes[0] == std::byte{2};
  const std::size_t size = is_v4 ? 4 : 16;
  const bool is_known = is_v4 || bytes[0] == std::byte{3};
  if (!is_known || bytes.size() != header_size + size || bytes[3] != std::byte(size)) {
    value.throw_malformed();
  }
  if (bytes[1] != std::byte(size * 8)) value.throw_out_of_range("the address of a network");
  if (is_v4) {
    net::ip_address::v4_bytes address;
    std::memcpy(address.data(), bytes.data() + header_size, size);
    return net::ip_address(address);
  }
  net::ip_address::v6_bytes address;
  std::memcpy(address.data(), bytes.data() + header_size, size);
  return net::ip_address(address);
}

std::chrono::year_month_day column_traits<std::chrono::year_month_day>::read(
    const column_value& value) {
  const std::chrono::sys_days date(detail::read_days(value, "a year_month_day"));
  using std::chrono::year;
  using std::chrono::year_month_day;
  constexpr std::chrono::sys_days first(year::min() / 1 / 1);
  constexpr std::chrono::sys_days last(year::max() / 12 / 31);
  if (date < first || date > last) value.throw_out_of_range("a date beyond the calendar's years");
  return year_month_day(date);
}

}  // namespace gyre::postgres
