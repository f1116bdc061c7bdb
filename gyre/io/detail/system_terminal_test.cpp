// SPDX-License-Identifier: Apache-2.0
// A simulated terminal takes the place of the system's at link time: this program defines all
// functions of system_terminal.hpp.
#include <gyre/io/detail/system_terminal.hpp>

#include <gyre/io/terminal.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>
#include <system_error>

namespace {

constinit ::termios attributes{};

}  // namespace

namespace gyre::io::detail::system {

int check_terminal(int fd) noexcept { return fd >= 0 ? 0 : EBADF; }
expected<::winsize> window_size(int fd) noexcept {
  if (fd < 0) return std::unexpected(EBADF);
  return ::winsize{.ws_row = 25, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
}
expected<::termios> terminal_attributes(int) noexcept { return attributes; }
int set_terminal_attributes(int, const ::termios& changed) noexcept {
  attributes = changed;
  return 0;
}
bool is_in_background(int) noexcept { return false; }
bool is_terminal_master(int) noexcept { return true; }

}  // namespace gyre::io::detail::system

namespace {

TEST(SimulatedTerminal, HasASizeOfItsOwn) {
  EXPECT_EQ(gyre::io::terminal_size(0), (gyre::io::terminal_extent{.columns = 80, .rows = 25}));
  EXPECT_TRUE(gyre::io::is_terminal(0));
  EXPECT_THROW(static_cast<void>(gyre::io::terminal_size(-1)), std::system_error);
}

TEST(SimulatedTerminal, IsChangedAndRestored) {
  attributes.c_lflag = ICANON | ECHO;
  {
    const gyre::unique_fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const gyre::io::terminal_mode quiet(file.get(), gyre::io::terminal_setting::cbreak);
    EXPECT_EQ(attributes.c_lflag, ::tcflag_t{0});
  }
  EXPECT_EQ(attributes.c_lflag, ::tcflag_t{ICANON | ECHO});
}

}  // namespace
