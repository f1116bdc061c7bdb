// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/terminal.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/signal_mask.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::io {
namespace {

// Sets attributes without waiting for output that the user has stopped.
bool set_attributes(int fd, const ::termios& attributes) noexcept {
  while (::tcsetattr(fd, TCSANOW, &attributes) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// False for a terminal that is not the program's controlling one, which has no job control. For the
// master of a pseudo-terminal tcgetpgrp(3) tells the foreground of whichever session has it.
bool is_in_background(int fd) noexcept {
  if (::tcgetsid(fd) != ::getsid(0)) return false;
  const ::pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

bool handles_sigttou() noexcept {
  struct ::sigaction action{};
  return ::sigaction(SIGTTOU, nullptr, &action) == 0 && action.sa_handler != SIG_DFL &&
         action.sa_handler != SIG_IGN;
}

// As set_attributes(), but a program in the background is stopped until it is in the foreground.
// The kernel would call a handler of SIGTTOU again and again: after a handler with SA_RESTART the
// call does not even return. So the program gets that signal once from here.
bool set_attributes_in_foreground(int fd, const ::termios& attributes) noexcept {
  const detail::signal_mask stops_in_background(SIG_UNBLOCK, SIGTTOU);
  if (is_in_background(fd) && handles_sigttou()) {
    ::kill(0, SIGTTOU);  // the whole job, as the kernel does
    if (is_in_background(fd)) {
      errno = EINTR;
      return false;
    }
  }
  return set_attributes(fd, attributes);
}

::termios attributes_of(int fd) {
  ::termios attributes;
  if (::tcgetattr(fd, &attributes) != 0) gyre::detail::throw_errno("gyre::io::terminal_mode");
  return attributes;
}

::termios changed_by(::termios attributes, terminal_setting setting) noexcept {
  switch (setting) {
    case terminal_setting::raw: ::cfmakeraw(&attributes); break;
    case terminal_setting::cbreak:
      attributes.c_lflag &= ~static_cast<::tcflag_t>(ICANON | ECHO);
      break;
    case terminal_setting::no_echo:
      attributes.c_lflag &= ~static_cast<::tcflag_t>(ECHO);
      attributes.c_lflag |= ECHONL;
      return attributes;
  }
  attributes.c_cc[VMIN] = 1;
  attributes.c_cc[VTIME] = 0;
  return attributes;
}

unique_fd duplicate(int fd) {
  unique_fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) gyre::detail::throw_errno("gyre::io::terminal_mode");
  return copy;
}

}  // namespace

namespace detail {

class changed_terminal : public intrusive_list_node {
 public:
  changed_terminal(int fd, terminal_setting setting)
      : fd_(duplicate(fd)), before_(attributes_of(fd)), setting_(setting) {
    apply();
  }
  changed_terminal& operator=(changed_terminal&&) = delete;
  ~changed_terminal() { restore(); }

  void apply();
  void restore() noexcept;

 private:
  static void restore_all() noexcept;
  void restore_attributes() noexcept;

  unique_fd fd_;
  ::termios before_;
  terminal_setting setting_;
  ::pid_t owner_ = ::getpid();  // a forked child leaves the terminal to its parent
};

namespace {

// The terminals to restore at exit. Never destroyed, as other threads may run on then.
struct changed_terminals {
  std::mutex lock;
  intrusive_list<changed_terminal> all;  // the latest first
  bool restores_at_exit = false;
};
changed_terminals& changed() {
  static auto* const only = new changed_terminals;
  return *only;
}

}  // namespace

void changed_terminal::apply() {
  const std::lock_guard hold(changed().lock);
  if (is_linked()) return;
  if (!changed().restores_at_exit) changed().restores_at_exit = std::atexit(&restore_all) == 0;
  if (!set_attributes_in_foreground(fd_.get(), changed_by(before_, setting_))) {
    gyre::detail::throw_errno(errno == EINTR
                                  ? "gyre::io::terminal_mode: in the background, and the handler "
                                    "of SIGTTOU did not wait: apply() again in the foreground"
                                  : "gyre::io::terminal_mode: tcsetattr");
  }
  changed().all.push_front(*this);
}

void changed_terminal::restore() noexcept {
  const std::lock_guard hold(changed().lock);
  if (!is_linked()) return;
  unlink();
  restore_attributes();
}

void changed_terminal::restore_attributes() noexcept {
  if (owner_ != ::getpid() || is_in_background(fd_.get())) return;
  const signal_mask never_stops(SIG_BLOCK, SIGTTOU);
  set_attributes(fd_.get(), before_);
}

void changed_terminal::restore_all() noexcept {
  const std::lock_guard hold(changed().lock);
  while (changed_terminal* const each = changed().all.pop_front()) each->restore_attributes();
}

void delete_changed_terminal::operator()(changed_terminal* changed) const noexcept {
  delete changed;
}

}  // namespace detail

terminal_mode::terminal_mode(int fd, terminal_setting setting)
    : changed_(new detail::changed_terminal(fd, setting)) {}

void terminal_mode::restore() noexcept {
  if (changed_ != nullptr) changed_->restore();
}

void terminal_mode::apply() {
  if (changed_ == nullptr) {
    throw std::logic_error("gyre::io::terminal_mode: apply() of an object that was moved from");
  }
  changed_->apply();
}

bool is_terminal(int fd) noexcept { return ::isatty(fd) == 1; }

terminal_extent terminal_size(int fd) {
  ::winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) {
    gyre::detail::throw_errno("gyre::io::terminal_size");
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

stream open_terminal(event_loop& loop, int fd) {
  if (!is_terminal(fd)) gyre::detail::throw_errno("gyre::io::open_terminal");
  int number = 0;
  if (::ioctl(fd, TIOCGPTN, &number) == 0) {
    // Opening it again would make another pseudo-terminal.
    gyre::detail::throw_system_error(
        EINVAL, "gyre::io::open_terminal: the master of a pseudo-terminal; make a stream of it");
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) gyre::detail::throw_errno("gyre::io::open_terminal");
  unique_fd own(::open(path.c_str(), (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!own) gyre::detail::throw_errno("gyre::io::open_terminal: open");
  return stream(loop, std::move(own));
}

}  // namespace gyre::io
