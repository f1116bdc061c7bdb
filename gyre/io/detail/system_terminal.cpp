// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_terminal.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <unistd.h>

#include <cerrno>

namespace gyre::io::detail::system {

int check_terminal(int fd) noexcept { return ::isatty(fd) == 1 ? 0 : errno; }

expected<::winsize> window_size(int fd) noexcept {
  ::winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return std::unexpected(errno);
  return size;
}

expected<::termios> terminal_attributes(int fd) noexcept {
  ::termios attributes;
  if (::tcgetattr(fd, &attributes) != 0) return std::unexpected(errno);
  return attributes;
}

int set_terminal_attributes(int fd, const ::termios& attributes) noexcept {
  const int result =
      gyre::detail::retry_interrupted([&] { return ::tcsetattr(fd, TCSANOW, &attributes); });
  return result < 0 ? errno : 0;
}

// Compares the sessions first, because for the master of a pseudo-terminal tcgetpgrp(3) returns the
// foreground group of whichever session has the terminal.
bool is_in_background(int fd) noexcept {
  if (::tcgetsid(fd) != ::getsid(0)) return false;
  const ::pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

bool is_terminal_master(int fd) noexcept {
  int number = 0;
  return ::ioctl(fd, TIOCGPTN, &number) == 0;
}

}  // namespace gyre::io::detail::system
