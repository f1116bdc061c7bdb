// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/version.hpp>

#include <gtest/gtest.h>

#include <string>

namespace version_test {
namespace {

TEST(Version, StringAndNumbersAgree) {
  EXPECT_EQ(std::to_string(GYRE_VERSION_MAJOR) + "." + std::to_string(GYRE_VERSION_MINOR) + "." +
                std::to_string(GYRE_VERSION_PATCH),
            GYRE_VERSION_STRING);
}

TEST(Version, LibraryIsThatOfTheHeaders) {
  EXPECT_EQ(gyre::library_version(), GYRE_VERSION_STRING);
}

// The number cannot grow with each version if a part exceeds its two digits.
static_assert(GYRE_VERSION_MINOR < 100 && GYRE_VERSION_PATCH < 100);

}  // namespace
}  // namespace version_test
