// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/error.hpp>

#include <gyre/io/request.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace error_test {
namespace {

using gyre::io::errc;

TEST(IoError, AnIdleConnectionDoesNotReadAsOneThatCouldNotBeMade) {
  const std::error_code idle = gyre::io::errc::idle_timeout;
  EXPECT_THAT(idle.message(), testing::HasSubstr("idle"));
  EXPECT_NE(idle.message(), std::make_error_code(std::errc::timed_out).message());
  EXPECT_EQ(idle, std::errc::timed_out);  // for code that does not distinguish time limits
  EXPECT_NE(std::error_code(gyre::io::errc::limit_exceeded), std::errc::timed_out);
}

TEST(IoError, EachSaysInItsOwnWordsWhatGyreDecided) {
  struct expectation {
    errc error;
    std::errc equal_to;
    const char* mentions;
  };
  for (const auto& [error, equal_to, mentions] : std::vector<expectation>{
           {errc::idle_timeout, std::errc::timed_out, "idle"},
           {errc::operation_timeout, std::errc::timed_out, "time limit"},
           {errc::closed, std::errc::operation_canceled, "closed"},
           {errc::not_open, std::errc::bad_file_descriptor, "closed"},
           {errc::busy, std::errc::operation_in_progress, "another coroutine"},
           {errc::wrong_thread, std::errc::operation_not_permitted, "thread"},
           {errc::message_timeout, std::errc::timed_out, "message_timeout"},
           {errc::write_timeout, std::errc::timed_out, "write_timeout"},
           {errc::close_timeout, std::errc::timed_out, "close_timeout"},
           {errc::connect_timeout, std::errc::timed_out, "connect_timeout"},
           {errc::output_limit, std::errc::no_buffer_space, "output_limit"},
           {errc::input_limit, std::errc::no_buffer_space, "input_limit"},
           {errc::memory_limit, std::errc::no_buffer_space, "memory_limit"},
           {errc::fd_limit, std::errc::too_many_files_open, "fd_limit"},
           {errc::aborted, std::errc::connection_aborted, "aborted"},
           {errc::connected_to_itself, std::errc::connection_refused, "itself"},
           {errc::frame_too_long, std::errc::message_size, "maximum"},
           {errc::bad_frame_length, std::errc::bad_message, "length"},
           {errc::wrong_frame_size, std::errc::message_size, "size"},
           {errc::bad_proxy_header, std::errc::protocol_error, "PROXY"},
           {errc::proxy_header_too_long, std::errc::message_size, "limit"},
           {errc::waiting_limit, std::errc::resource_unavailable_try_again, "max_waiting"},
           {errc::watch_limit, std::errc::no_space_on_device, "fs.inotify.max_user_watches"},
           {errc::watch_moved, std::errc::no_such_file_or_directory, "add the watch again"}}) {
    const std::error_code code = error;
    EXPECT_EQ(code, equal_to) << code.message();
    EXPECT_EQ(code.default_error_condition(), equal_to);
    EXPECT_THAT(code.message(), testing::HasSubstr(mentions));
    EXPECT_NE(code.message(), std::make_error_code(equal_to).message());
  }
  for (const errc error : {errc::unexpected_end, errc::limit_exceeded}) {
    EXPECT_EQ(std::error_code(error).default_error_condition().category(),
              gyre::io::error_category());
  }
  EXPECT_EQ(std::error_code(1000, gyre::io::error_category()).message(), "unknown error");
}

TEST(IoError, IsCarriedByTheOutcomeOfARequest) {
  const auto expired = gyre::io::result::failure(errc::operation_timeout);
  EXPECT_FALSE(expired.ok());
  EXPECT_EQ(expired.error(), errc::operation_timeout);
  EXPECT_LT(expired.error_number(), 256);
  const auto refused = gyre::io::result::failure(ECONNREFUSED);
  EXPECT_EQ(refused.error(), std::error_code(ECONNREFUSED, std::system_category()));
}

}  // namespace
}  // namespace error_test
