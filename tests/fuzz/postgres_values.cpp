// SPDX-License-Identifier: Apache-2.0
// Fuzz target: columns of PostgreSQL of every type, read as every type. Reading gives a value or an
// error, and a value is written as bytes that are read as the same value.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/engines/postgres/column_traits.hpp>

#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/numeric_codec.hpp>
#include <gyre/engines/postgres/detail/text_array.hpp>
#include <gyre/io/buffer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::postgres::column_traits;
using gyre::postgres::column_value;
using gyre::postgres::oid;
namespace oids = gyre::postgres::oids;

constexpr std::array<oid, 34> types = {oids::boolean,
                                       oids::bytea,
                                       oids::name,
                                       oids::int8,
                                       oids::int2,
                                       oids::int4,
                                       oids::text,
                                       oids::object_id,
                                       oids::xid,
                                       oids::json,
                                       oids::xml,
                                       oids::float4,
                                       oids::float8,
                                       oids::inet,
                                       oids::bpchar,
                                       oids::varchar,
                                       oids::date,
                                       oids::time,
                                       oids::timestamp,
                                       oids::timestamptz,
                                       oids::interval,
                                       oids::numeric,
                                       oids::uuid,
                                       oids::jsonb,
                                       1000,
                                       1007,
                                       1009,
                                       1016,
                                       1115,
                                       1231,
                                       2951,
                                       3807,
                                       1041,
                                       16500};

// A parameter's bytes, as an element of the Bind message; nothing if it is sent as a text.
template <class T>
std::optional<std::string> write(oid type, const T& value) {
  gyre::io::buffer output;
  const std::tuple<const T&> values(value);
  const gyre::postgres::detail::bound_arguments<const T&> arguments(values);
  arguments.write(output, std::span(&type, 1));
  const std::string_view text = output.text();
  constexpr std::size_t header_size = 10;
  if (text[3] != 1) return std::nullopt;
  return std::string(text.substr(header_size));
}

template <class T>
void read_as(const column_value& value, bool is_comparable = true) {
  std::optional<T> read;
  try {
    read = column_traits<T>::read(value);
  } catch (const std::system_error&) {
    return;
  }
  if (!is_comparable || !value.is_binary()) return;
  try {
    const std::optional<std::string> bytes = write(value.type(), *read);
    if (!bytes) return;
    const column_value written({1, "c", value.type(), true}, false,
                               std::as_bytes(std::span(*bytes)));
    require(column_traits<T>::read(written) == *read);
  } catch (const std::system_error&) {
    // A double that was read from an int8, for example, is not always written as one.
  }
}

void check_column(decisions& decide) {
  using namespace std::chrono;
  const oid type = types[decide.below(types.size())];
  const bool is_binary = decide.flip() || gyre::postgres::detail::is_read_as_binary(type);
  const std::string_view bytes = decide.rest();
  const column_value value({1, "c", type, is_binary}, false, std::as_bytes(std::span(bytes)));
  read_as<bool>(value);
  read_as<std::int8_t>(value);
  read_as<std::uint64_t>(value);
  read_as<std::int64_t>(value);
  read_as<float>(value, false);
  read_as<double>(value, false);
  read_as<std::string>(value);
  read_as<std::vector<std::byte>>(value);
  read_as<gyre::postgres::numeric>(value);
  read_as<gyre::postgres::json>(value);
  read_as<gyre::postgres::uuid>(value);
  read_as<gyre::postgres::interval>(value);
  read_as<gyre::net::ip_address>(value);
  read_as<nanoseconds>(value);
  read_as<sys_days>(value);
  read_as<sys_time<microseconds>>(value);
  read_as<sys_time<nanoseconds>>(value);
  read_as<local_time<microseconds>>(value);
  read_as<year_month_day>(value);
  read_as<std::vector<std::optional<std::int64_t>>>(value);
  read_as<std::vector<std::optional<std::string>>>(value);
  read_as<std::vector<bool>>(value);
  read_as<std::vector<gyre::postgres::uuid>>(value);
}

void check_numeric(decisions& decide) {
  std::string text = decide.flip() ? "-" : "";
  const auto append_digits = [&](std::size_t count) {
    for (; count > 0; --count) text += static_cast<char>('0' + decide.below(10));
  };
  text += static_cast<char>('1' + decide.below(9));
  append_digits(decide.below(20));
  if (decide.flip()) {
    text += '.';
    append_digits(1 + decide.below(20));
  }
  gyre::io::buffer output;
  require(gyre::postgres::detail::append_numeric(output, text));
  require(gyre::postgres::detail::read_numeric(output.bytes()) == text);
}

void check_url(decisions& decide) {
  static constexpr std::array<std::string_view, 24> pieces = {
      "postgresql://", "postgres://", "user",     ":",       "@",   "[::1]",
      "localhost",     "5432",        "/",        "?",       "&",   "=",
      "host",          "port",        "sslmode",  "disable", "%2F", "%zz",
      "%00",           "dbname",      "password", ",",       "#",   "/tmp"};
  std::string url = decide.flip() ? "postgresql://" : "";
  for (std::size_t count = decide.below(16); count > 0; --count) {
    url += decide.below(10) == 0 ? decide.text(1) : pieces[decide.below(pieces.size())];
  }
  try {
    static_cast<void>(gyre::postgres::client_options::parse(url));
  } catch (const std::invalid_argument&) {
  } catch (const std::system_error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(8)) {
    case 0: check_numeric(decide); break;
    case 1: check_url(decide); break;
    case 2: static_cast<void>(gyre::postgres::detail::parse_text_array(decide.rest())); break;
    default: check_column(decide);
  }
  return 0;
}
