// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/find_control.hpp>

#include <gyre/http/detail/characters.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace find_control_test {
namespace {

using namespace gyre::http::detail;

constexpr std::string_view ordinary = "Content-Type: text/plain; charset=utf-8, \x80\xff";

TEST(FindControl, FindsTheFirstOneAtEveryPlaceInTextsOfAllSizes) {
  for (std::size_t size = 0; size <= ordinary.size(); ++size) {
    const std::string text(ordinary.substr(0, size));
    const char* const end = text.data() + size;
    EXPECT_EQ(find_control(text.data(), end), end) << size;
    for (std::size_t at = 0; at != size; ++at) {
      for (const char control : {'\0', '\t', '\n', '\r', '\x1f', '\x7f'}) {
        std::string with = text;
        with[at] = control;
        with.back() = at + 1 == size ? control : '\n';  // a later one does not count
        EXPECT_EQ(find_control(with.data(), with.data() + size) - with.data(),
                  static_cast<std::ptrdiff_t>(at));
      }
    }
  }
}

TEST(FindControl, OtherBytesAreNone) {
  for (int each = 0; each != 256; ++each) {
    const std::string text(20, static_cast<char>(each));
    const bool is_control = each < 0x20 || each == 0x7f;
    EXPECT_EQ(find_control(text.data(), text.data() + 20) != text.data() + 20, is_control) << each;
    EXPECT_EQ(find_control(text.data(), text.data() + 9) != text.data() + 9, is_control) << each;
  }
}

TEST(SkipLetters, NeverSkipsAnotherByte) {
  const auto is_skipped = [](char each) { return is_letter(each) || each == '-'; };
  for (int other = 0; other != 256; ++other) {
    for (std::size_t at = 0; at <= 33; ++at) {
      std::string text(40, 'q');
      text[at] = static_cast<char>(other);
      const char* const stop = skip_letters(text.data(), text.data() + text.size());
      const auto skipped = static_cast<std::size_t>(stop - text.data());
      ASSERT_TRUE(std::ranges::all_of(text.substr(0, skipped), is_skipped)) << other << ' ' << at;
    }
  }
}

TEST(SkipLetters, StopsAtTheEnd) {
  const std::string text(100, 'x');
  for (std::size_t size = 0; size <= text.size(); ++size) {
    EXPECT_LE(skip_letters(text.data(), text.data() + size), text.data() + size);
  }
}

}  // namespace
}  // namespace find_control_test
