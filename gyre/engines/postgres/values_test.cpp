// SPDX-License-Identifier: Apache-2.0
// argument_traits, column_traits and row_traits without a server: golden and hostile bytes.
#include <gyre/engines/postgres/column_traits.hpp>

#include <gyre/engines/postgres/argument_traits.hpp>
#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/numeric_codec.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/io/buffer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace postgres_values_test {

struct point {
  double x;
  double y;
  bool operator==(const point&) const = default;
};
enum class colour { red, green };

class account {
 public:
  account() = default;
  account(int id, std::string owner) : id_(id), owner_(std::move(owner)) {}
  bool operator==(const account&) const = default;
  int id_ = 0;
  std::string owner_;
};

struct careless {};

}  // namespace postgres_values_test

template <>
struct gyre::postgres::argument_traits<postgres_values_test::colour> {
  static void write(argument_writer& output, postgres_values_test::colour value) {
    output.write_text(value == postgres_values_test::colour::red ? "red" : "green");
  }
};
template <>
struct gyre::postgres::column_traits<postgres_values_test::colour> {
  static postgres_values_test::colour read(const column_value& value) {
    return value.text() == "red" ? postgres_values_test::colour::red
                                 : postgres_values_test::colour::green;
  }
};
template <>
struct gyre::postgres::argument_traits<postgres_values_test::careless> {
  static void write(argument_writer&, postgres_values_test::careless) {}
};
template <>
inline constexpr auto gyre::postgres::row_members<postgres_values_test::account> =
    std::tuple(&postgres_values_test::account::id_, &postgres_values_test::account::owner_);

namespace postgres_values_test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using gyre::postgres::argument_traits;
using gyre::postgres::argument_writer;
using gyre::postgres::column_cursor;
using gyre::postgres::column_traits;
using gyre::postgres::column_value;
using gyre::postgres::errc;
using gyre::postgres::interval;
using gyre::postgres::json;
using gyre::postgres::numeric;
using gyre::postgres::oid;
using gyre::postgres::row_traits;
using gyre::postgres::uuid;
using gyre::postgres::detail::column_description;
using gyre::postgres::detail::row_view;
using testing::ElementsAre;
using testing::HasSubstr;
namespace oids = gyre::postgres::oids;

constexpr oid enumeration = 16500;
constexpr oid int4_array = 1007;
constexpr oid text_array = 1009;
constexpr oid numeric_array = 1231;
constexpr oid uuid_array = 2951;
constexpr oid jsonb_array = 3807;

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(each) >> 4U];
    text += digits[std::to_integer<unsigned>(each) & 15U];
  }
  return text;
}

std::vector<std::byte> bytes_of(std::string_view digits) {
  std::vector<std::byte> bytes;
  std::string pair;
  for (const char each : digits) {
    if (each == ' ') continue;
    pair += each;
    if (pair.size() < 2) continue;
    bytes.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
    pair.clear();
  }
  return bytes;
}

// A parameter as a Bind message has it: "b:" and the bytes, "t:" and the text, or "null".
template <class T>
std::string written(oid type, const T& value) {
  gyre::io::buffer output;
  output.append("header"sv);
  const std::tuple<const T&> values(value);
  const gyre::postgres::detail::bound_arguments<const T&> arguments(values);
  arguments.write(output, std::span(&type, 1));
  output.consume(6);
  const std::span<const std::byte> bytes = output.bytes();
  EXPECT_EQ(hex(bytes.first(2)), "0001");
  EXPECT_EQ(hex(bytes.subspan(4, 2)), "0001");
  const auto size = static_cast<std::int32_t>(gyre::load_be<std::uint32_t>(bytes.data() + 6));
  const std::span<const std::byte> content = bytes.subspan(10);
  if (size == -1) return content.empty() ? "null" : "bytes after null";
  if (static_cast<std::size_t>(size) != content.size()) return "wrong size";
  if (bytes[3] == std::byte{1}) return "b:" + hex(content);
  return "t:" + std::string(reinterpret_cast<const char*>(content.data()), content.size());
}

template <class T>
std::error_code refusal(oid type, const T& value) {
  try {
    static_cast<void>(written(type, value));
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

template <class T>
T read(oid type, std::span<const std::byte> bytes) {
  return column_traits<T>::read(
      column_value({1, "c", type, gyre::postgres::detail::is_read_as_binary(type)}, false, bytes));
}
template <class T>
T read(oid type, std::string_view digits) {
  const std::vector<std::byte> bytes = bytes_of(digits);
  return read<T>(type, std::span(bytes));
}
template <class T>
std::error_code failure(oid type, std::string_view digits) {
  try {
    static_cast<void>(read<T>(type, digits));
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

// Returns a value that was written and read again.
template <class T>
T echo(oid type, const T& value) {
  const std::string text = written(type, value);
  EXPECT_TRUE(text.starts_with("b:")) << text;
  return read<T>(type, std::string_view(text).substr(2));
}

TEST(PostgresArguments, IntegersAreWrittenAsTheirParameter) {
  EXPECT_EQ(written(oids::int2, -2), "b:fffe");
  EXPECT_EQ(written(oids::int4, 1L), "b:00000001");
  EXPECT_EQ(written(oids::int8, std::uint8_t{7}), "b:0000000000000007");
  EXPECT_EQ(written(oids::object_id, 4'000'000'000U), "b:ee6b2800");
  EXPECT_EQ(written(oids::float8, 2), "b:4000000000000000");
  EXPECT_EQ(written(oids::float4, -1), "b:bf800000");
  EXPECT_EQ(written(oids::numeric, 12), "t:12");
  EXPECT_EQ(written(oids::text, -5), "t:-5");
  EXPECT_EQ(written(oids::numeric, std::numeric_limits<std::uint64_t>::max()),
            "t:18446744073709551615");
}

TEST(PostgresArguments, IntegersThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal(oids::int2, 40'000), errc::out_of_range);
  EXPECT_EQ(refusal(oids::int4, std::int64_t{1} << 40), errc::out_of_range);
  EXPECT_EQ(refusal(oids::int8, std::uint64_t{1} << 63), errc::out_of_range);
  EXPECT_EQ(refusal(oids::object_id, -1), errc::out_of_range);
  EXPECT_EQ(refusal(oids::float8, (std::int64_t{1} << 53) + 1), errc::out_of_range);
  EXPECT_EQ(refusal(oids::float4, (1 << 24) + 1), errc::out_of_range);
  EXPECT_EQ(refusal(oids::float8, std::numeric_limits<std::int64_t>::max()), errc::out_of_range);
  EXPECT_EQ(refusal(oids::float8, std::numeric_limits<std::int64_t>::min()), std::error_code());
  EXPECT_EQ(refusal(oids::float8, std::numeric_limits<std::uint64_t>::max()), errc::out_of_range);
  EXPECT_EQ(refusal(oids::boolean, 1), errc::unsupported_type);
}

TEST(PostgresArguments, RealsAreWrittenAsTheirParameter) {
  EXPECT_EQ(written(oids::float8, 0.5), "b:3fe0000000000000");
  EXPECT_EQ(written(oids::float4, 0.1), "b:3dcccccd");
  EXPECT_EQ(written(oids::float8, 0.5F), "b:3fe0000000000000");
  EXPECT_EQ(written(oids::numeric, 0.1), "t:0.1");
  EXPECT_EQ(written(oids::numeric, 0.1F), "t:0.1");
  EXPECT_EQ(written(oids::numeric, 1e30), "t:1000000000000000019884624838656");
  EXPECT_EQ(written(oids::numeric, 5e-324).size(), 2U + 326U);
  EXPECT_EQ(written(oids::numeric, -std::numeric_limits<double>::max()).size(), 2U + 310U);
  EXPECT_EQ(written(oids::numeric, std::nan("")), "t:NaN");
  EXPECT_EQ(written(oids::numeric, -HUGE_VAL), "t:-Infinity");
  EXPECT_EQ(written(oids::float4, HUGE_VAL), "b:7f800000");
  EXPECT_EQ(refusal(oids::float4, 1e300), errc::out_of_range);
}

TEST(PostgresArguments, TextsBytesAndOthers) {
  EXPECT_EQ(written(oids::int4, "12"), "t:12");
  EXPECT_EQ(written(oids::text, std::string("a\0b", 3)), std::string("t:a\0b", 5));
  EXPECT_EQ(written(oids::bytea, "\\x41"sv), "b:5c783431");
  const std::array<std::byte, 2> bytes = {std::byte{0}, std::byte{255}};
  EXPECT_EQ(written(oids::bytea, bytes), "b:00ff");
  EXPECT_EQ(written(oids::bytea, std::vector<std::byte>()), "b:");
  EXPECT_EQ(refusal(oids::text, bytes), errc::unsupported_type);
  EXPECT_EQ(written(oids::boolean, true), "b:01");
  EXPECT_EQ(written(oids::text, false), "t:false");
  EXPECT_EQ(refusal(oids::int4, true), errc::unsupported_type);
  EXPECT_EQ(written(enumeration, colour::green), "t:green");
  EXPECT_EQ(written(oids::jsonb, json{"{}"}), "t:{}");
  EXPECT_EQ(written(oids::int4, std::nullopt), "null");
  EXPECT_EQ(written(oids::int4, nullptr), "null");
  EXPECT_EQ(written(oids::int4, std::optional<int>()), "null");
  EXPECT_EQ(written(oids::int4, std::optional<int>(1)), "b:00000001");
  EXPECT_EQ(written(oids::inet, gyre::net::ip_address("192.0.2.1")), "b:02200004c0000201");
  EXPECT_EQ(written(oids::inet, gyre::net::ip_address("2001:db8::7")),
            "b:0380001020010db8000000000000000000000007");
}

TEST(PostgresArguments, TimesCountFromTheYear2000) {
  using namespace std::chrono;
  const sys_days start = 2000y / January / 1;
  EXPECT_EQ(written(oids::timestamptz, sys_seconds(start)), "b:0000000000000000");
  EXPECT_EQ(written(oids::timestamptz, sys_time<microseconds>(start + 1us)), "b:0000000000000001");
  // A time before the epoch is rounded down.
  EXPECT_EQ(written(oids::timestamptz, sys_time<nanoseconds>(start - 1ns)), "b:ffffffffffffffff");
  EXPECT_EQ(written(oids::timestamptz, start), "b:0000000000000000");
  EXPECT_EQ(written(oids::date, start), "b:00000000");
  EXPECT_EQ(written(oids::date, year_month_day(1999y / December / 31)), "b:ffffffff");
  EXPECT_EQ(written(oids::timestamp, local_seconds(local_days(2000y / January / 2))),
            "b:000000141dd76000");
  EXPECT_EQ(written(oids::timestamptz, sys_seconds::max()), "b:7fffffffffffffff");
  EXPECT_EQ(written(oids::timestamptz, sys_time<microseconds>::min()), "b:8000000000000000");
  EXPECT_EQ(written(oids::date, sys_days::max()), "b:7fffffff");
  EXPECT_EQ(written(oids::date, local_days::min()), "b:80000000");
  EXPECT_EQ(written(oids::interval, 90min), "b:0000000141dd76000000000000000000");
  EXPECT_EQ(written(oids::interval, interval{1, 2, 3us}), "b:00000000000000030000000200000001");
  EXPECT_EQ(written(oids::time, hh_mm_ss(1h)), "b:00000000d693a400");
  EXPECT_EQ(refusal(oids::timestamptz, sys_seconds(seconds::max() - 1s)), errc::out_of_range);
  EXPECT_EQ(refusal(oids::timestamptz, sys_seconds(seconds(-9'223'372'036'854))),
            errc::out_of_range);
  EXPECT_EQ(refusal(oids::date, sys_days(days(2'147'483'646))), std::error_code());
  EXPECT_EQ(refusal(oids::date, sys_days(days(-2'147'483'000))), errc::out_of_range);
  EXPECT_EQ(refusal(oids::date, year_month_day(2001y / February / 29)), errc::out_of_range);
  EXPECT_EQ(refusal(oids::interval, hours(std::int64_t{1} << 50)), errc::out_of_range);
  EXPECT_EQ(refusal(oids::time, hh_mm_ss(25h)), errc::out_of_range);
  // A time with and one without a zone are not mixed up.
  EXPECT_EQ(refusal(oids::timestamp, sys_seconds(start)), errc::unsupported_type);
  EXPECT_EQ(refusal(oids::timestamptz, local_seconds()), errc::unsupported_type);
}

TEST(PostgresArguments, ArraysAreBinaryIfTheirElementsAre) {
  EXPECT_EQ(written(int4_array, std::vector<int>{1, 2}),
            "b:00000001"
            "00000000"
            "00000017"
            "00000002"
            "00000001"
            "0000000400000001"
            "0000000400000002");
  EXPECT_EQ(written(int4_array, std::vector<int>()), "b:000000000000000000000017");
  EXPECT_EQ(written(int4_array, std::vector<std::optional<int>>{std::nullopt, 2}),
            "b:00000001"
            "00000001"
            "00000017"
            "00000002"
            "00000001"
            "ffffffff"
            "0000000400000002");
  EXPECT_EQ(written(text_array, std::list<std::string>{"a"}),
            "b:00000001"
            "00000000"
            "00000019"
            "00000001"
            "00000001"
            "0000000161");
  EXPECT_EQ(written(jsonb_array, std::vector<json>{{"1"}}),
            "b:00000001"
            "00000000"
            "00000eda"
            "00000001"
            "00000001"
            "000000020131");
  EXPECT_EQ(written(numeric_array, std::vector<int>{12}),
            "b:00000001"
            "00000000"
            "000006a4"
            "00000001"
            "00000001"
            "0000000a0001000000000000000c");
  const std::array<int, 1> one = {1};
  EXPECT_EQ(written(int4_array, std::span<const int>(one)),
            "b:00000001"
            "00000000"
            "00000017"
            "00000001"
            "00000001"
            "0000000400000001");
  EXPECT_EQ(refusal(int4_array, std::vector<std::int64_t>{1, 1LL << 40}), errc::out_of_range);
}

TEST(PostgresArguments, OtherArraysAreTextsWithQuotes) {
  const std::vector<std::string> texts = {"a", "b,c", R"("\")", ""};
  EXPECT_EQ(written(enumeration, texts), R"(t:{"a","b,c","\"\\\"",""})");
  EXPECT_EQ(written(uuid_array, std::vector<std::string>{"x"}), R"(t:{"x"})");
  EXPECT_EQ(written(enumeration, std::vector<colour>()), "t:{}");
  EXPECT_EQ(written(enumeration, std::vector<std::optional<colour>>{colour::red, std::nullopt}),
            R"(t:{"red",NULL})");
  EXPECT_EQ(written(enumeration, std::vector<int>{1, 2}), R"(t:{"1","2"})");
  EXPECT_EQ(refusal(enumeration, std::vector<interval>{{}}), errc::unsupported_type);
}

TEST(PostgresArguments, ErrorsNameTheArgument) {
  const std::array<oid, 2> types = {oids::int4, oids::int2};
  const std::tuple<int, int> values(1, 70'000);
  const gyre::postgres::detail::bound_arguments<int, int> arguments(values);
  gyre::io::buffer output;
  try {
    arguments.write(output, types);
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("argument 2 (int2): 70000"));
  }
  EXPECT_THROW(arguments.write(output, std::span(types).first(1)), std::system_error);
}

TEST(PostgresArguments, TraitsThatWriteNothingAreFound) {
  EXPECT_THROW(static_cast<void>(written(oids::int4, careless())), std::logic_error);
}

TEST(PostgresColumns, IntegersOfEveryWidth) {
  EXPECT_EQ(read<int>(oids::int2, "fffe"), -2);
  EXPECT_EQ(read<std::int8_t>(oids::int8, "ffffffffffffff80"), -128);
  EXPECT_EQ(read<std::uint64_t>(oids::int8, "7fffffffffffffff"), 0x7fff'ffff'ffff'ffffU);
  EXPECT_EQ(read<std::int64_t>(oids::int8, "8000000000000000"),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read<std::uint32_t>(oids::object_id, "ffffffff"), 0xffff'ffffU);
  EXPECT_EQ(read<int>(oids::numeric, "0001 0000 4000 0002 000c"), -12);
  EXPECT_EQ(failure<std::int8_t>(oids::int4, "00000080"), errc::out_of_range);
  EXPECT_EQ(failure<std::int8_t>(oids::int4, "ffffff7f"), errc::out_of_range);
  EXPECT_EQ(failure<unsigned>(oids::int4, "ffffffff"), errc::out_of_range);
  EXPECT_EQ(failure<int>(oids::object_id, "ffffffff"), errc::out_of_range);
  EXPECT_EQ(failure<int>(oids::numeric, "0001 ffff 0000 0004 0001"), errc::out_of_range);
  EXPECT_EQ(failure<int>(oids::text, "31"), errc::unsupported_type);
  EXPECT_EQ(failure<int>(oids::int4, "000000"), errc::malformed_value);
  EXPECT_EQ(failure<int>(oids::int4, "0000000000"), errc::malformed_value);
  EXPECT_EQ(failure<int>(oids::int8, ""), errc::malformed_value);
}

TEST(PostgresColumns, RealsAreReadExactly) {
  EXPECT_EQ(read<double>(oids::float8, "3fe0000000000000"), 0.5);
  EXPECT_EQ(read<double>(oids::float4, "3f000000"), 0.5);
  EXPECT_EQ(read<double>(oids::int4, "00000007"), 7.0);
  EXPECT_EQ(read<float>(oids::float8, "3fe0000000000000"), 0.5F);
  EXPECT_TRUE(std::isnan(read<float>(oids::float8, "7ff8000000000000")));
  EXPECT_EQ(read<float>(oids::float8, "7ff0000000000000"), HUGE_VALF);
  EXPECT_EQ(read<double>(oids::numeric, "0002 0000 4000 0001 0001 1388"), -1.5);
  EXPECT_TRUE(std::isnan(read<double>(oids::numeric, "0000 0000 c000 0000")));
  EXPECT_EQ(read<double>(oids::numeric, "0000 0000 f000 0020"), -HUGE_VAL);
  EXPECT_EQ(failure<float>(oids::float8, "3fb999999999999a"), errc::out_of_range);
  EXPECT_EQ(failure<double>(oids::int8, "0020000000000001"), errc::out_of_range);
  EXPECT_EQ(read<double>(oids::int8, "8000000000000000"), -0x1p63);
  EXPECT_EQ(failure<double>(oids::float8, "00"), errc::malformed_value);
}

TEST(PostgresColumns, TextsBytesAndOthers) {
  EXPECT_EQ(read<std::string>(oids::varchar, "6162"), "ab");
  EXPECT_EQ(read<std::string>(oids::jsonb, "017b7d"), "{}");
  EXPECT_EQ(read<std::string>(oids::bytea, "00"), std::string(1, '\0'));
  EXPECT_EQ(read<std::string>(enumeration, "726564"), "red");
  EXPECT_EQ(read<colour>(enumeration, "726564"), colour::red);
  EXPECT_EQ(failure<std::string>(oids::int4, "00000001"), errc::unsupported_type);
  EXPECT_EQ(read<std::vector<std::byte>>(oids::bytea, "00ff"),
            (std::vector<std::byte>{std::byte{0}, std::byte{255}}));
  EXPECT_EQ(failure<std::vector<std::byte>>(oids::text, "61"), errc::unsupported_type);
  EXPECT_TRUE(read<bool>(oids::boolean, "01"));
  EXPECT_FALSE(read<bool>(oids::boolean, "00"));
  EXPECT_EQ(failure<bool>(oids::boolean, ""), errc::malformed_value);
  EXPECT_EQ(read<json>(oids::json, "5b5d"), json{"[]"});
  EXPECT_EQ(failure<json>(oids::jsonb, "025b5d"), errc::malformed_value);
  EXPECT_EQ(failure<json>(oids::jsonb, ""), errc::malformed_value);
  EXPECT_EQ(failure<uuid>(oids::uuid, "00"), errc::malformed_value);
  EXPECT_EQ(read<gyre::net::ip_address>(oids::inet, "02200004c0000201").to_string(), "192.0.2.1");
  EXPECT_EQ(failure<gyre::net::ip_address>(oids::inet, "02180004c0000200"), errc::out_of_range);
  for (const char* each : {"", "02", "02200004", "0220000400", "04200004c0000201",
                           "02200010c0000201", "0380001020010db800000000"}) {
    EXPECT_EQ(failure<gyre::net::ip_address>(oids::inet, each), errc::malformed_value) << each;
  }
}

TEST(PostgresColumns, ATextIsReadFromTypesThatAreNotBuiltIn) {
  const std::string text = "(1,2)";
  const column_value value({1, "c", enumeration, false}, false, std::as_bytes(std::span(text)));
  EXPECT_EQ(column_traits<std::string>::read(value), text);
  EXPECT_THROW(static_cast<void>(column_traits<int>::read(value)), std::system_error);
}

TEST(PostgresColumns, ArraysOfTypesThatAreNotBuiltInAreTexts) {
  const auto read_array = [](const std::string& text) {
    const column_value value({1, "c", enumeration, false}, false, std::as_bytes(std::span(text)));
    return column_traits<std::vector<std::optional<std::string>>>::read(value);
  };
  EXPECT_THAT(read_array(R"({red,"a \"b\\,",NULL,"NULL",\NULL,""})"),
              ElementsAre("red", "a \"b\\,", std::nullopt, "NULL", "NULL", ""));
  EXPECT_THAT(read_array("{}"), ElementsAre());
  EXPECT_THAT(read_array("[0:1]={a,b}"), ElementsAre("a", "b"));
  for (const char* each : {"", "{", "a", "{a", "{a,", "{a,}", "{,a}", "{{a}}", "{a}b", "{}b",
                           "{\"a}", "{a\"b\"}", "{a\\", "[0:1]", "[0:1]=a", "(1,2)"}) {
    EXPECT_THROW(read_array(each), std::system_error) << each;
  }
}

TEST(PostgresColumns, Times) {
  using namespace std::chrono;
  const sys_days start = 2000y / January / 1;
  EXPECT_EQ(read<sys_seconds>(oids::timestamptz, "0000000000000000"), start);
  EXPECT_EQ(read<sys_time<nanoseconds>>(oids::timestamptz, "0000000000000001"), start + 1us);
  EXPECT_EQ(read<local_days>(oids::date, "ffffffff"), local_days(1999y / December / 31));
  EXPECT_EQ(read<year_month_day>(oids::date, "0000003b"), 2000y / February / 29);
  EXPECT_EQ(read<sys_seconds>(oids::timestamptz, "7fffffffffffffff"), sys_seconds::max());
  EXPECT_EQ(read<sys_days>(oids::date, "80000000"), sys_days::min());
  EXPECT_EQ(read<minutes>(oids::interval, "0000000141dd7600 00000000 00000000"), 90min);
  EXPECT_EQ(read<interval>(oids::interval, "ffffffffffffffff 00000002 00000001"),
            (interval{1, 2, -1us}));
  EXPECT_EQ(read<hh_mm_ss<seconds>>(oids::time, "00000000d693a400").hours(), 1h);
  // Nothing is lost without notice.
  EXPECT_EQ(failure<sys_seconds>(oids::timestamptz, "0000000000000001"), errc::out_of_range);
  EXPECT_EQ(failure<sys_time<nanoseconds>>(oids::timestamptz, "7ffffffffffffffe"),
            errc::out_of_range);
  EXPECT_EQ(failure<sys_time<microseconds>>(oids::timestamptz, "7ffffffffffffffe"),
            errc::out_of_range);
  EXPECT_EQ(failure<year_month_day>(oids::date, "7ffffffe"), errc::out_of_range);
  EXPECT_EQ(failure<year_month_day>(oids::date, "7fffffff"), errc::out_of_range);
  EXPECT_EQ(failure<seconds>(oids::interval, "0000000000000000 00000001 00000000"),
            errc::out_of_range);
  EXPECT_EQ(failure<seconds>(oids::interval, "0000000000000001 00000000 00000000"),
            errc::out_of_range);
  EXPECT_EQ(failure<hh_mm_ss<hours>>(oids::time, "0000000000000001"), errc::out_of_range);
  EXPECT_EQ(failure<hh_mm_ss<hours>>(oids::time, "7000000000000001"), errc::malformed_value);
  EXPECT_EQ(failure<local_seconds>(oids::timestamptz, "0000000000000000"), errc::unsupported_type);
  EXPECT_EQ(failure<sys_seconds>(oids::date, "00000000"), errc::unsupported_type);
}

TEST(PostgresColumns, ValuesAreReadAsTheyWereWritten) {
  using namespace std::chrono;
  const uuid id("0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f");
  EXPECT_EQ(echo(oids::uuid, id), id);
  EXPECT_EQ(id.to_string(), "0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f");
  const auto now = sys_time<microseconds>(1'790'000'000'123'456us);
  EXPECT_EQ(echo(oids::timestamptz, now), now);
  EXPECT_EQ(echo(oids::date, sys_days(1815y / June / 18)), sys_days(1815y / June / 18));
  EXPECT_EQ(echo(oids::interval, interval{-1, 5, -3s}), (interval{-1, 5, -3s}));
  const std::vector<std::optional<int>> numbers = {1, std::nullopt, -3};
  EXPECT_EQ(echo(int4_array, numbers), numbers);
  const std::vector<bool> flags = {true, false};
  EXPECT_EQ(echo(1000, flags), flags);
}

TEST(PostgresColumns, NullNeedsAnOptional) {
  const column_value null({3, "price", oids::numeric, true}, true, {});
  EXPECT_EQ(column_traits<std::optional<int>>::read(null), std::nullopt);
  for (const auto& reads : std::initializer_list<void (*)(const column_value&)>{
           [](const column_value& value) { static_cast<void>(column_traits<int>::read(value)); },
           [](const column_value& value) { static_cast<void>(column_traits<bool>::read(value)); },
           [](const column_value& value) {
             static_cast<void>(column_traits<std::vector<int>>::read(value));
           },
           [](const column_value& value) {
             static_cast<void>(column_traits<std::string>::read(value));
           }}) {
    try {
      reads(null);
      ADD_FAILURE();
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), errc::null_value);
      EXPECT_THAT(error.what(), HasSubstr("column 3 \"price\" (numeric)"));
    }
  }
}

TEST(PostgresColumns, HostileArraysAreRefused) {
  using array = std::vector<std::optional<int>>;
  const std::string head = "00000001 00000001 00000017";
  for (const std::string& each : {
           std::string(),
           std::string("00000001"),
           head,
           head + "00000001",
           head + "00000001 00000001",
           head + "ffffffff 00000001",  // more elements than bytes
           head + "7fffffff 00000001 ffffffff",
           head + "00000001 00000001 00000005 01020304",  // an element beyond the end
           head + "00000001 00000001 fffffffe",           // a negative size
           head + "00000002 00000001 ffffffff 000000",
           std::string("00000007 00000000 00000017"),  // too many dimensions
           std::string("00000000 00000000 00000017 00"),
       }) {
    EXPECT_EQ(failure<array>(int4_array, each), errc::malformed_value) << each;
  }
  EXPECT_EQ(failure<array>(int4_array,
                           "00000002 00000000 00000017 00000001 00000001 00000001 "
                           "00000001 00000004 00000001"),
            errc::unsupported_type);
  EXPECT_EQ(failure<array>(oids::int4, "00000001"), errc::unsupported_type);
  EXPECT_EQ(failure<std::vector<int>>(int4_array, head + "00000001 00000001 ffffffff"),
            errc::null_value);
}

TEST(PostgresNumeric, TextsAndBytesAreEachOthers) {
  for (const std::string text :
       {"0", "1", "-1", "10000", "12345678", "0.1", "-0.0001", "0.00000001", "123.4500",
        "9999.9999", "100000000000000000000", "0.000", "NaN", "Infinity", "-Infinity",
        "79228162514264337593543950335.12345"}) {
    gyre::io::buffer output;
    ASSERT_TRUE(gyre::postgres::detail::append_numeric(output, text));
    EXPECT_EQ(gyre::postgres::detail::read_numeric(output.bytes()), text);
  }
  gyre::io::buffer output;
  ASSERT_TRUE(gyre::postgres::detail::append_numeric(output, "+007.50"));
  EXPECT_EQ(gyre::postgres::detail::read_numeric(output.bytes()), "7.50");
  EXPECT_EQ(hex(output.bytes()), "000200000000000200071388");
  output.clear();
  ASSERT_TRUE(gyre::postgres::detail::append_numeric(output, "-0"));
  EXPECT_EQ(hex(output.bytes()), "0000000000000000");
  EXPECT_FALSE(gyre::postgres::detail::append_numeric(output, std::string(131'073, '1')));
  EXPECT_FALSE(gyre::postgres::detail::append_numeric(output, "0." + std::string(16'384, '1')));
}

TEST(PostgresNumeric, HostileBytesAreRefused) {
  for (const char* each : {"", "00", "00000000000000", "0001 0000 0000 0000", "0000 0000 0001 0000",
                           "0001 0000 0000 0000 2710", "0000 0000 0000 4000", "ffff 0000 0000 0000",
                           "0000 0000 0000 0000 00"}) {
    EXPECT_EQ(gyre::postgres::detail::read_numeric(bytes_of(each)), std::nullopt) << each;
  }
  // The largest number that these bytes may ask for.
  const auto largest = gyre::postgres::detail::read_numeric(bytes_of("0000 7fff 0000 3fff"));
  EXPECT_TRUE(largest && largest->size() < 150'000);
  const auto smallest = gyre::postgres::detail::read_numeric(bytes_of("0001 8000 0000 3fff 0001"));
  EXPECT_TRUE(smallest && smallest->size() < 20'000);
}

TEST(PostgresNumeric, IsADecimalNumber) {
  EXPECT_EQ(numeric("-1.50").text(), "-1.50");
  EXPECT_EQ(numeric(7).text(), "7");
  EXPECT_EQ(numeric().to_double(), 0.0);
  EXPECT_EQ(numeric("-1.5").to_double(), -1.5);
  EXPECT_EQ(numeric("Infinity").to_double(), HUGE_VAL);
  EXPECT_EQ(numeric(std::string(400, '9')).to_double(), HUGE_VAL);
  EXPECT_EQ(numeric("-0." + std::string(400, '0') + "1").to_double(), 0.0);
  for (const char* each : {"", "-", ".", "1e5", " 1", "1 ", "0x1", "nan", "1.2.3", "--1"}) {
    EXPECT_THROW(numeric{std::string(each)}, std::invalid_argument) << each;
  }
}

TEST(PostgresUuid, IsParsedStrictly) {
  EXPECT_FALSE(uuid::parse("").has_value());
  EXPECT_FALSE(uuid::parse("0191d5a43c5e4b1f8d2a6f0f6f1f2f3f").has_value());
  EXPECT_FALSE(uuid::parse("0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3g").has_value());
  EXPECT_FALSE(uuid::parse("0191d5a4-3c5e-4b1f-8d2a+6f0f6f1f2f3f").has_value());
  EXPECT_FALSE(uuid::parse("-191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f").has_value());
  EXPECT_EQ(uuid::parse("0191D5A4-3C5E-4B1F-8D2A-6F0F6F1F2F3F"),
            uuid("0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f"));
  EXPECT_THROW(uuid("x"), std::invalid_argument);
  EXPECT_LT(uuid(), uuid("0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f"));
  EXPECT_EQ((std::unordered_set<uuid>{uuid(), uuid()}.size()), 1U);
}

template <class Row>
Row read_row(std::string_view digits, const std::vector<oid>& types) {
  std::vector<column_description> columns;
  for (const oid each : types) {
    columns.push_back({.name = "c", .type = each, .type_modifier = -1, .is_binary = true});
  }
  const std::vector<std::byte> bytes = bytes_of(digits);
  const std::optional<row_view> row = row_view::parse(bytes);
  EXPECT_TRUE(row.has_value());
  column_cursor cursor(*row, columns);
  return row_traits<Row>::read(cursor);
}

TEST(PostgresRows, AreTuplesPairsStructsAndListedMembers) {
  const std::string two_reals = "0002 00000008 3fe0000000000000 00000008 4000000000000000";
  const std::vector<oid> reals = {oids::float8, oids::float8};
  EXPECT_EQ(read_row<point>(two_reals, reals), (point{0.5, 2}));
  EXPECT_EQ((read_row<std::pair<double, double>>(two_reals, reals)), std::pair(0.5, 2.0));
  EXPECT_EQ((read_row<std::tuple<double, double>>(two_reals, reals)), std::tuple(0.5, 2.0));
  EXPECT_EQ(read_row<account>("0002 00000004 00000007 00000001 61", {oids::int4, oids::text}),
            account(7, "a"));
  EXPECT_EQ(read_row<std::optional<int>>("0001 ffffffff", {oids::int4}), std::nullopt);
  static_assert(row_traits<point>::column_count == 2);
  static_assert(row_traits<account>::column_count == 2);
  static_assert(!gyre::postgres::row<int*>);
  std::vector<double> visited;
  row_traits<point>::for_each(point{1, 2}, [&](double each) { visited.push_back(each); });
  EXPECT_THAT(visited, ElementsAre(1, 2));
}

}  // namespace
}  // namespace postgres_values_test
