// SPDX-License-Identifier: Apache-2.0
// system_terminal: the system calls on terminals.
//
// This header is part of the seam, with the rules of system_files.hpp: a program that defines all
// functions of this header can replace terminals.
#pragma once

#include <gyre/io/detail/system_files.hpp>

#include <sys/ioctl.h>
#include <termios.h>

namespace gyre::io::detail::system {

/// Returns zero for a terminal, otherwise ENOTTY or EBADF.
[[nodiscard]] int check_terminal(int fd) noexcept;
[[nodiscard]] expected<::winsize> window_size(int fd) noexcept;
[[nodiscard]] expected<::termios> terminal_attributes(int fd) noexcept;
/// Sets the attributes without waiting for output that the user has stopped.
int set_terminal_attributes(int fd, const ::termios& attributes) noexcept;
/// Returns whether the program is in the background of its controlling terminal `fd`. False for
/// another terminal, which has no job control.
[[nodiscard]] bool is_in_background(int fd) noexcept;
/// Returns whether `fd` is the master of a pseudo-terminal.
[[nodiscard]] bool is_terminal_master(int fd) noexcept;

}  // namespace gyre::io::detail::system
