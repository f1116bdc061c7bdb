// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/multipart.hpp>

#include <gyre/http/format_error.hpp>
#include <gyre/http/multipart_writer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace multipart_test {
namespace {

using namespace std::string_view_literals;
using gyre::http::format_errc;
using gyre::http::multipart_boundary;
using gyre::http::multipart_event;
using gyre::http::multipart_limits;
using gyre::http::multipart_part;
using gyre::http::multipart_reader;
using gyre::http::multipart_writer;
using testing::HasSubstr;
using testing::StartsWith;

std::string description_of(const multipart_part& part) {
  std::string text = part.name;
  if (part.file_name) text += '<' + *part.file_name + '>';
  return text + '(' + part.content_type + ")=";
}

// The parts of a body as "name<file>(type)=data;", and its error.
struct body_reader {
  multipart_reader reader;
  std::string parts = {};
  std::error_code error = {};

  // Pieces have memory of their own, so that AddressSanitizer notices views that are kept.
  void feed(std::string_view text) {
    const std::vector<char> copy(text.begin(), text.end());
    gyre::io::input piece(std::string_view(copy.data(), copy.size()));
    while (!error) {
      const auto event = reader.next(piece);
      if (!event) {
        error = event.error();
        return;
      }
      switch (event->kind) {
        case multipart_event::need_more: EXPECT_TRUE(piece.empty()); return;
        case multipart_event::part: parts += description_of(reader.part()); break;
        case multipart_event::data:
          EXPECT_FALSE(event->bytes.empty());
          parts += gyre::io::input(event->bytes).text();
          break;
        case multipart_event::part_end: parts += ';'; break;
        case multipart_event::end: parts += '.'; break;
      }
    }
  }
  std::string finish() {
    if (!error) error = reader.finish();
    EXPECT_EQ(reader.finish(), error);
    return error ? parts + '!' + error.message() : parts;
  }
};

std::string read_cut(std::string_view body, std::size_t cut, multipart_limits limits) {
  body_reader reader{multipart_reader("b", limits)};
  reader.feed(body.substr(0, cut));
  reader.feed(body.substr(cut));
  return reader.finish();
}

// Reads a body whole, cut in two at every byte and one byte at a time, all with the same result.
std::string read(std::string_view body, multipart_limits limits = {}) {
  const std::string whole = read_cut(body, body.size(), limits);
  for (std::size_t cut = 0; cut < body.size(); ++cut) {
    EXPECT_EQ(read_cut(body, cut, limits), whole) << "cut at " << cut;
  }
  body_reader single{multipart_reader("b", limits)};
  for (const char& each : body) single.feed({&each, 1});
  EXPECT_EQ(single.finish(), whole) << "one byte at a time";
  return whole;
}

std::string read_part(std::string_view head, std::string_view data = "x") {
  std::string body = "--b\r\n";
  body.append(head).append("\r\n\r\n").append(data).append("\r\n--b--\r\n");
  return read(body);
}

std::string message_of(format_errc error) { return make_error_code(error).message(); }

constexpr std::string_view plain = "Content-Disposition: form-data; name=\"a\"";

TEST(MultipartReader, PartsAreReadInTheirOrder) {
  EXPECT_EQ(read("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n"
                 "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\n"
                 "Content-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n\r\n"
                 "--b\r\ncontent-disposition:form-data;name=c\r\n\r\n\r\n"
                 "--b--\r\n"),
            "a(text/plain)=one;f<x.png>(image/png)=\x89PNG\r\n\x1a\n;c(text/plain)=;.");
}

TEST(MultipartReader, DataThatResembleABoundaryAreData) {
  for (const std::string_view data :
       {"\r", "\n", "\r\n", "\r\n-", "\r\n--", "--b", "\r\n--B", "\r\r\n--\r\n--", "\r\n-\r\n--a",
        "\n--b\r", "\r--b", "\r\n\r\n--", "-b\r\n--b"}) {
    if (data.ends_with("\r\n--b")) continue;
    EXPECT_EQ(read_part(plain, data), "a(text/plain)=" + std::string(data) + ";.");
  }
}

TEST(MultipartReader, ABodyMayHaveAPreambleAndNoParts) {
  EXPECT_EQ(read("--b--"), ".");
  EXPECT_EQ(read("--b--\r\n"), ".");
  EXPECT_EQ(read("\r\n--b--\r\n"), ".");
  EXPECT_EQ(read("for old readers --b\r\n--\r\n--b--"), ".");
}

// RFC 9110, 5.6.6.
TEST(MultipartReader, ParametersMayBeEmpty) {
  EXPECT_EQ(read_part("Content-Disposition: form-data;; name=\"a\" ; ;filename=\"b\";\r\n"
                      "Content-Type: text/html;"),
            "a<b>(text/html;)=x;.");
  EXPECT_EQ(gyre::http::multipart_boundary("multipart/form-data; boundary=b;"), "b");
}

TEST(MultipartReader, NamesAreDecoded) {
  EXPECT_EQ(read_part("Content-Disposition: form-data; name=\"%22a%0D%0A%41%\"; "
                      "filename=\"C:\\dir\\\\x\\\"y\""),
            "\"a\r\n%41%<C:\\dir\\x\"y>(text/plain)=x;.");
  EXPECT_EQ(read_part("Content-Disposition: form-data; name=\"\xC3\xBC\"; filename=\"\"; "
                      "filename*=utf-8''evil; x=y"),
            "\xC3\xBC<>(text/plain)=x;.");
}

TEST(MultipartReader, ABackslashMayEndAName) {
  EXPECT_EQ(read_part("Content-Disposition: form-data; name=\"a\\\"; filename=\"C:\\\\d\\\""),
            "a\\<C:\\\\d\\>(text/plain)=x;.");
  EXPECT_EQ(read_part("Content-Disposition: form-data; filename=\"b\"; name=\"a\\\""),
            "a\\<b>(text/plain)=x;.");
}

TEST(MultipartReader, OtherHeadersAreIgnored) {
  EXPECT_EQ(read_part("X: y\r\n" + std::string(plain) + "\r\nContent-Transfer-Encoding: Binary"),
            "a(text/plain)=x;.");
}

TEST(MultipartReader, MalformedPartsAreRefused) {
  const std::string bad = '!' + message_of(format_errc::bad_part);
  for (const std::string_view head : {
           "X: y"sv,
           "Content-Disposition: attachment; name=\"a\""sv,
           "Content-Disposition: form-data"sv,
           "Content-Disposition: form-data; filename=\"a\""sv,
           "Content-Disposition: form-data; name=\"a\"; name=\"b\""sv,
           "Content-Disposition: form-data; name=\"a\"; filename=\"b\"; filename=\"c\""sv,
           "Content-Disposition: form-data; name=\"a"sv,
           "Content-Disposition: form-data; name=\"a\" b"sv,
           "Content-Disposition: form-data; name=\"a\0\""sv,
           "Content-Disposition: form-data; name=\"a\rb\""sv,
           "Content-Disposition: form-data; name=\"a\nX: b\""sv,
           "Content-Disposition : form-data; name=\"a\""sv,
           " Content-Disposition: form-data; name=\"a\""sv,
           "Content-Disposition: form-data;\r\n name=\"a\""sv,
           "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=a"sv,
           "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: x\r\nContent-Type: a/b"sv,
           "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: a/b\r\nContent-Type: a/b"sv,
           "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64"sv,
           "Content-Disposition: form-data; name=\"a\"\r\nno colon"sv,
           "Content-Disposition: form-data; name=\"a\"\r\n: x"sv,
       }) {
    EXPECT_EQ(read_part(head), bad) << head;
  }
}

TEST(MultipartReader, AMalformedTypeIsTheDefault) {
  for (const std::string_view type :
       {"", "image", "a/", "/b", "a/b; c", "a b/c", "a/b;charset=\""}) {
    const std::string body = "--b\r\n" + std::string(plain) +
                             "\r\nContent-Type: " + std::string(type) + "\r\n\r\none\r\n--b--";
    EXPECT_EQ(read(body), "a(text/plain)=one;.") << type;
  }
}

TEST(MultipartReader, MalformedBoundariesAreRefused) {
  const std::string bad = '!' + message_of(format_errc::bad_part);
  for (const std::string_view body :
       {"--b x\r\n", "--b --\r\n", "--b \n", "--b \r ", "--b\v\r\n", "--bb\r\n", "--b\n", "--b\rx",
        "--b-x", "--b- -", "--b--x", "--b-- x", "--b--\n", "--b-- \n", "--b--\rx", "--b--\r \n",
        "--b\r\n\r\n", "--b\r\n--b\r\n\r\n"}) {
    EXPECT_THAT(read(body), testing::EndsWith(bad)) << body;
  }
}

TEST(MultipartReader, BlanksBehindABoundaryAreIgnored) {
  EXPECT_EQ(read("--b \t \r\n" + std::string(plain) + "\r\n\r\none\r\n--b\t\r\n" +
                 std::string(plain) + "\r\n\r\n \r\n--b-- \t\r\n"),
            "a(text/plain)=one;a(text/plain)= ;.");
  EXPECT_EQ(read("--b-- "), ".");
  EXPECT_EQ(read("--b \r\n" + std::string(plain) + "\r\n\r\nx", {.max_head = plain.size() + 4}),
            "a(text/plain)=x!" + message_of(format_errc::incomplete));
  EXPECT_EQ(read("--b" + std::string(100, ' ') + "\r\n", {.max_head = 99}),
            '!' + message_of(format_errc::part_headers_too_long));
}

TEST(MultipartReader, LinesAfterTheLastBoundaryAreIgnored) {
  for (const std::string_view epilogue :
       {"\r\n", "\r\n\r\n", "\r\nfor old readers", " \r\n--b\r\n\r\nno part\r\n--b--\r\n", "\r\n\r",
        "\r\n\n"}) {
    EXPECT_EQ(read("--b--" + std::string(epilogue)), ".") << epilogue;
  }
  EXPECT_EQ(read("--b--\r"), ".!" + message_of(format_errc::incomplete));
}

TEST(MultipartReader, ABodyThatEndsTooEarlyIsIncomplete) {
  const std::string body = "--b\r\n" + std::string(plain) + "\r\n\r\nx\r\n--b--";
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_THAT(read(body.substr(0, size)),
                testing::EndsWith('!' + message_of(format_errc::incomplete)))
        << size;
  }
  EXPECT_EQ(read(body), "a(text/plain)=x;.");
}

TEST(MultipartReader, LimitsAreKept) {
  const std::string part = "--b\r\n" + std::string(plain) + "\r\n\r\nx\r\n";
  const std::string two = part + part + "--b--";
  EXPECT_THAT(read(two, {.max_parts = 2}), testing::EndsWith(";."));
  EXPECT_THAT(read(two, {.max_parts = 1}), HasSubstr(message_of(format_errc::too_many_parts)));
  EXPECT_THAT(read(two, {.max_head = plain.size() + 4}), testing::EndsWith(";."));
  EXPECT_THAT(read(two, {.max_head = plain.size() + 3}),
              HasSubstr(message_of(format_errc::part_headers_too_long)));
  EXPECT_EQ(read("abc\r\n--b--", {.max_preamble = 3}), ".");
  EXPECT_EQ(read("abcd\r\n--b--", {.max_preamble = 3}),
            '!' + message_of(format_errc::preamble_too_long));
  EXPECT_EQ(read("--b-- \r\nab", {.max_epilogue = 3}), ".");
  EXPECT_EQ(read("--b-- \r\nabc", {.max_epilogue = 3}),
            ".!" + message_of(format_errc::epilogue_too_long));
  EXPECT_EQ(read("--b--    ", {.max_epilogue = 3}),
            ".!" + message_of(format_errc::epilogue_too_long));
  EXPECT_EQ(read(std::string(100, 'x'), {.max_preamble = 3}),
            '!' + message_of(format_errc::preamble_too_long));
}

TEST(MultipartReader, DataAreViewsOfThePiece) {
  const std::string body = "--b\r\n" + std::string(plain) + "\r\n\r\nhello\r\n--b--";
  gyre::io::input piece{std::string_view(body)};
  multipart_reader reader("b");
  ASSERT_EQ(reader.next(piece)->kind, multipart_event::part);
  const auto data = reader.next(piece);
  ASSERT_EQ(data->kind, multipart_event::data);
  EXPECT_EQ(static_cast<const void*>(data->bytes.data()), body.data() + body.find("hello"));
  EXPECT_EQ(data->bytes.size(), 5U);
}

TEST(MultipartBoundary, IsTheParameterOfTheType) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=a.b"), "a.b");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data;charset=x; BOUNDARY=\"a b:\""), "a b:");
  for (const std::string& type :
       {std::string(""), std::string("multipart/form-data"),
        std::string("multipart/mixed; boundary=a"), std::string("multipart/form-data; boundary="),
        std::string("multipart/form-data; boundary=\"\""),
        std::string("multipart/form-data; boundary=\"a \""),
        std::string("multipart/form-data; boundary=\"a;\""),
        std::string("multipart/form-data; boundary=a; boundary=b"),
        "multipart/form-data; boundary=" + std::string(71, 'a')}) {
    EXPECT_EQ(multipart_boundary(type).error(), format_errc::bad_boundary) << type;
  }
  EXPECT_TRUE(multipart_boundary("multipart/form-data; boundary=" + std::string(70, 'a')));
  EXPECT_THROW(multipart_reader(""), std::invalid_argument);
  EXPECT_THROW(multipart_reader("a\r"), std::invalid_argument);
}

TEST(MultipartWriter, WritesWhatBrowsersWrite) {
  multipart_writer writer("b");
  writer.add("a", "one").add_file("f\"", "x\r\n.png", "image/png", "data"sv).finish();
  EXPECT_EQ(writer.text(),
            "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n"
            "--b\r\nContent-Disposition: form-data; name=\"f%22\"; filename=\"x%0D%0A.png\"\r\n"
            "Content-Type: image/png\r\n\r\ndata\r\n--b--\r\n");
  EXPECT_EQ(writer.content_type(), "multipart/form-data; boundary=b");
  EXPECT_EQ(multipart_writer("b").finish().take(), "--b--\r\n");
}

TEST(MultipartWriter, AReaderReadsAllThatItWrites) {
  multipart_writer writer("b");
  const std::string body = writer.add("", "\r\n--").add("\"\\\r\n\\", "").finish().take();
  EXPECT_EQ(read(body), "(text/plain)=\r\n--;\"\\\r\n\\(text/plain)=;.");
}

TEST(MultipartWriter, AFileCanBeSentPieceByPiece) {
  multipart_writer writer("b");
  std::string body = writer.add("a", "1").start_file("f", "x", "text/csv").take();
  body += "1,2";
  EXPECT_EQ(writer.text(), "");
  body += writer.add("c", "2").finish().take();
  EXPECT_EQ(read(body), "a(text/plain)=1;f<x>(text/csv)=1,2;c(text/plain)=2;.");
}

TEST(MultipartWriter, BoundariesAreRandomAndFitAHeader) {
  const multipart_writer one;
  const multipart_writer two;
  EXPECT_NE(one.boundary(), two.boundary());
  EXPECT_THAT(one.boundary(), StartsWith("----gyre"));
  EXPECT_EQ(one.boundary().size(), 40U);
  EXPECT_EQ(multipart_boundary(one.content_type()), one.boundary());
  EXPECT_EQ(multipart_boundary(multipart_writer("a b?").content_type()), "a b?");
}

TEST(MultipartWriter, RefusesTextsThatBreakTheBody) {
  multipart_writer writer("bound");
  EXPECT_THROW(writer.add("a", "x\r\n--bound--"), std::invalid_argument);
  EXPECT_THROW(writer.add("a\0"sv, "x"), std::invalid_argument);
  EXPECT_THROW(writer.add_file("a", "\x7f", "text/plain", "x"sv), std::invalid_argument);
  EXPECT_THROW(writer.add_file("a", "b", "text/plain\r\nX: y", "x"sv), std::invalid_argument);
  EXPECT_THROW(writer.add_file("a", "b", "", "x"sv), std::invalid_argument);
  EXPECT_EQ(writer.text(), "");
  EXPECT_THROW(writer.finish().add("a", "x"), std::invalid_argument);
  EXPECT_THROW(multipart_writer(" "), std::invalid_argument);
}

}  // namespace
}  // namespace multipart_test
