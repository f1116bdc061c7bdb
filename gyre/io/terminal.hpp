// SPDX-License-Identifier: Apache-2.0
// terminal_mode, open_terminal, terminal_size: a terminal that a program draws on, and reads key by
// key.
//
//     gyre::io::stream keys = gyre::io::open_terminal(loop, STDIN_FILENO);
//     const gyre::io::terminal_mode raw(keys.fd(), gyre::io::terminal_setting::raw);
//     const gyre::io::terminal_extent screen = gyre::io::terminal_size(keys.fd());
//     co_await keys.write_all("\x1b[" + std::to_string(screen.rows) + ";1H> ");
//     const std::size_t count = co_await keys.read_some(key);  // Ctrl-C is a byte, too
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/stream.hpp>

#include <cstdint>
#include <memory>

namespace gyre::io {

namespace detail {

class changed_terminal;
struct delete_changed_terminal {
  void operator()(changed_terminal* terminal) const noexcept;
};

}  // namespace detail

/// Returns whether `fd` is a terminal. Also false if `fd` is not open.
[[nodiscard]] bool is_terminal(int fd) noexcept;

/// The size of a terminal in characters.
struct terminal_extent {
  std::uint16_t columns = 0;
  std::uint16_t rows = 0;
  friend bool operator==(const terminal_extent&, const terminal_extent&) = default;
};

/// Returns the size of the terminal `fd`; zeros if the terminal does not know its size. When the
/// size changes, the programs in the foreground get SIGWINCH: await that signal with a signal_set,
/// then call this function again.
///
/// Thread-safety: any thread.
/// Errors: std::system_error (ENOTTY for a descriptor that is not a terminal, EBADF).
/// Complexity: one system call.
[[nodiscard]] terminal_extent terminal_size(int fd);

/// Returns a stream of the terminal `fd`, such as STDIN_FILENO, to read keys and to write.
///
/// A stream is non-blocking, which is a property of the open file, not of the descriptor: standard
/// input, output and error on a terminal are one open file, which the shell and other programs
/// share. stream(loop, unique_fd(::dup(STDIN_FILENO))) would make all of them non-blocking, even
/// after the end of this program, and their writes would fail with EAGAIN. So this function opens
/// the terminal again, and leaves `fd` as it is. `fd` may be closed afterwards.
///
/// Without a terminal, `program < file` and `program | other` still need care: a pipe is shared as
/// well, and a file has no stream. Call is_terminal() first, and read other input by io::file,
/// whose calls block on a pool.
///
/// Thread-safety: the loop's thread; while no thread runs the loop, one thread at a time.
/// Errors: std::system_error: ENOTTY for a descriptor that is not a terminal; EACCES if the
/// terminal belongs to another user, as after su(1); EINVAL for the master of a pseudo-terminal,
/// which cannot be opened again: make a stream of that, which ends when all have closed the
/// terminal.
/// Complexity: four system calls, and those of stream().
[[nodiscard]] stream open_terminal(event_loop& loop, int fd);

/// A setting of a terminal, as a change to a shell's setting. Nested in another of these settings
/// it can only restrict further: no_echo within raw still gives each byte. To change that, restore
/// the outer setting first.
enum class terminal_setting : std::uint8_t {
  /// Each byte is read as it is typed, without an echo. No key has a special meaning: Ctrl-C,
  /// Ctrl-Z and Ctrl-D are bytes 3, 26 and 4, and raise no signal. Output is not processed: a new
  /// line needs "\r\n". See cfmakeraw(3).
  raw,
  /// Each byte is read as it is typed, without an echo. Ctrl-C and Ctrl-Z still raise signals, and
  /// output is processed. The terminal still translates input: Enter gives '\n', and Ctrl-S and
  /// Ctrl-Q stop and continue the output instead of being read (IXON).
  cbreak,
  /// Whole lines are read, without an echo except of the line's end: for passwords.
  no_echo,
};

/// Changes the setting of a terminal during the object's lifetime. Move-only.
///
/// The setting belongs to the terminal, not to the program: a terminal that stays raw is raw for
/// the shell, too. The former setting is restored
/// - by the destructor, and by restore(),
/// - by exit(3), and so by the return of main(), for objects that are not destroyed.
///
/// A forked child restores nothing, also not after an apply() of its own: a child that needs a
/// setting makes an object. Nothing is restored by a signal that ends the program, by
/// std::terminate(), abort(3) or _exit(2). For SIGINT, SIGTERM and SIGHUP make a signal_set, or a
/// runtime, which end the program in order; after a crash the user types `reset`.
///
/// A program in the background must not change the terminal. The constructor then stops the program
/// (SIGTTOU) until it is brought to the foreground, as other programs do, also on a thread that
/// blocks the signal, such as gyre's; unless the program ignores SIGTTOU. A handler of SIGTTOU is
/// called once, on this thread: if the program is in the background still when it returns, the
/// constructor throws std::errc::interrupted. restore() in the background does nothing: the shell
/// has its own setting then. A program that is stopped (SIGTSTP) and continued (SIGCONT) calls
/// restore() before, and apply() afterwards.
///
/// Thread-safety: one thread at a time, any.
/// Lifetime: the terminal is kept open, so `fd` may be closed. Nested objects end in the reverse
/// order.
/// Complexity: a block of memory and a descriptor; some ten system calls at either end.
class terminal_mode {
 public:
  /// Throws std::system_error: ENOTTY for a descriptor that is not a terminal, EBADF, EMFILE; EIO
  /// if the terminal has hung up, or in the background of a shell that has ended; EINTR in the
  /// background, after a handler of SIGTTOU.
  explicit terminal_mode(int fd, terminal_setting setting);

  /// Restores the setting from before the constructor. Idempotent. Errors are ignored, such as EIO
  /// of a terminal that has hung up: there is nothing left to restore.
  void restore() noexcept;
  /// Sets the constructor's setting again, after restore(). Throws std::system_error, like the
  /// constructor; std::logic_error if the object was moved from.
  void apply();

 private:
  std::unique_ptr<detail::changed_terminal, detail::delete_changed_terminal> changed_terminal_;
};

}  // namespace gyre::io
