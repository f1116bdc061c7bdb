// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/error_code_of.hpp>

#include <gtest/gtest.h>

#include <exception>
#include <ios>
#include <new>
#include <stdexcept>
#include <system_error>

namespace error_code_of_test {
namespace {

using gyre::detail::error_code_of;

const std::error_code refused = std::make_error_code(std::errc::connection_refused);

TEST(ErrorCodeOf, IsTheCodeOfASystemError) {
  EXPECT_EQ(error_code_of(std::make_exception_ptr(std::system_error(refused))), refused);
  const std::error_code failed = std::make_error_code(std::io_errc::stream);
  EXPECT_EQ(error_code_of(std::make_exception_ptr(std::ios_base::failure("file"))), failed)
      << "a class derived from std::system_error";
}

TEST(ErrorCodeOf, NamesMissingMemory) {
  const std::error_code no_memory = std::make_error_code(std::errc::not_enough_memory);
  EXPECT_EQ(error_code_of(std::make_exception_ptr(std::bad_alloc()), refused), no_memory);
  EXPECT_EQ(error_code_of(std::make_exception_ptr(std::bad_array_new_length())), no_memory);
}

TEST(ErrorCodeOf, IsTheOtherCodeForAnythingElse) {
  EXPECT_EQ(error_code_of(std::make_exception_ptr(std::runtime_error("lost"))), std::error_code());
  EXPECT_EQ(error_code_of(std::make_exception_ptr(42), refused), refused);
}

}  // namespace
}  // namespace error_code_of_test
