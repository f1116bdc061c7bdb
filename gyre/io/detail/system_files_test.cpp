// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_files.hpp>

#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

namespace {

namespace system = gyre::io::detail::system;
using gyre::testing::fault;

class SystemFiles : public testing::Test {
 protected:
  SystemFiles() {
    std::string path = "/tmp/gyre-system-files-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = *system::open(path.c_str(), O_RDONLY | O_DIRECTORY);
    path_ = path;
  }
  ~SystemFiles() override {
    for (const char* const name : {"file", "new"}) system::unlink_at(folder(), name, 0);
    system::unlink_at(AT_FDCWD, path_.c_str(), AT_REMOVEDIR);
  }

  int folder() const { return folder_.get(); }
  gyre::unique_fd make_file() const {
    return *system::open_at(folder(), "file", O_RDWR | O_CREAT, 0600);
  }

 private:
  gyre::unique_fd folder_;
  std::string path_;
};

TEST_F(SystemFiles, MakesInterruptedCallsAgain) {
  const gyre::unique_fd file = make_file();
  std::array<std::byte, 4> bytes{};
  const fault open("openat", EINTR);
  const fault write("pwrite", EINTR);
  const fault read("pread", EINTR);
  const fault stat("statx", EINTR);
  const fault sync("fsync", EINTR);
  const fault truncate("ftruncate", EINTR);
  EXPECT_TRUE(system::open_at(folder(), "file", O_RDONLY));
  EXPECT_EQ(system::write_at(file.get(), bytes, 0).count(), bytes.size());
  EXPECT_EQ(system::read_at(file.get(), bytes, 2).count(), 2U);
  EXPECT_EQ(system::status_of(file.get(), STATX_SIZE)->stx_size, bytes.size());
  EXPECT_EQ(system::sync(file.get()), 0);
  EXPECT_EQ(system::truncate(file.get(), 1), 0);
  for (const fault* const each : {&open, &write, &read, &stat, &sync, &truncate}) {
    EXPECT_EQ(each->hits(), 1);
  }
}

TEST_F(SystemFiles, MakesNoCallAgainThatMayHaveHadItsEffect) {
  gyre::unique_fd file = make_file();
  const fault rename("renameat2", EINTR);
  const fault make("mkdirat", EINTR);
  const fault close("close", EINTR);
  EXPECT_EQ(system::rename_at(folder(), "file", folder(), "new", 0), EINTR);
  EXPECT_EQ(system::make_directory_at(folder(), "new", 0700), EINTR);
  EXPECT_EQ(system::close(file.release()), EINTR);
  const fault unlink("unlinkat", EINTR);
  EXPECT_EQ(system::unlink_at(folder(), "file", 0), EINTR);
}

TEST_F(SystemFiles, ClosesDescriptorsOnExec) {
  const gyre::unique_fd file = make_file();
  const auto copy = system::duplicate(file.get(), 100);
  const auto pipe = system::make_pipe(O_NONBLOCK);
  const auto inotify = system::open_inotify();
  const auto beneath = system::open_beneath(folder(), "file", O_RDONLY, 0);
  EXPECT_GE(copy->get(), 100);
  for (const int fd :
       {folder(), file.get(), copy->get(), pipe->read_end.get(), pipe->write_end.get(),
        inotify->get(), beneath ? beneath->get() : folder()}) {
    EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_FALSE(system::has_events(pipe->read_end.get(), POLLIN));
}

TEST_F(SystemFiles, GivesErrorsAsNumbers) {
  EXPECT_EQ(system::open("", O_RDONLY).error(), ENOENT);
  EXPECT_EQ(system::status_of(-1, STATX_SIZE).error(), EBADF);
  EXPECT_EQ(system::read_link("/").error(), EINVAL);
  EXPECT_EQ(*system::read_link("/proc/self/cwd"), *system::read_link("/proc/thread-self/cwd"));
  EXPECT_THROW(system::value_or_throw(system::flags_of(-1), "fcntl"), std::system_error);
}

}  // namespace
