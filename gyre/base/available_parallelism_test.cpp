// SPDX-License-Identifier: Apache-2.0
// Tests of the number of threads that can run at once, in file trees of control groups.
#include <gyre/base/available_parallelism.hpp>

#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace available_parallelism_test {
namespace {

using gyre::detail::parallelism_of;
using testing::ElementsAre;
using testing::Optional;

// A root directory in which a process finds its control groups.
class ControlGroupQuota : public testing::Test {
 protected:
  void put(const std::string& path, std::string_view content) const {
    root_.make_folder(std::filesystem::path(path).parent_path().relative_path().native());
    root_.make_file(std::filesystem::path(path).relative_path().native(), content);
  }
  void mounts(std::string_view lines) const {
    put("/proc/self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n" + std::string(lines));
  }
  void unified(std::string_view group) const {
    put("/proc/self/cgroup", "0::" + std::string(group) + "\n");
    mounts("30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void legacy(std::string_view group, std::string_view mounted = "/") const {
    put("/proc/self/cgroup", "12:pids:/elsewhere\n4:cpu,cpuacct:" + std::string(group) +
                                 "\n3:cpuset:/elsewhere\n1:name=systemd:/elsewhere\n");
    mounts("33 22 0:28 " + std::string(mounted) +
           " /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
           "34 22 0:29 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset\n");
  }
  void put_legacy(const std::string& group, std::string_view quota, std::string_view period) const {
    put("/sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", quota);
    put("/sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", period);
  }
  std::optional<double> quota() const { return gyre::detail::control_group_quota(root_.path()); }

  gyre::test::temporary_folder root_;
};

TEST_F(ControlGroupQuota, IsNoneWhereNothingCanBeRead) { EXPECT_EQ(quota(), std::nullopt); }

TEST_F(ControlGroupQuota, IsThatOfAUnifiedGroup) {
  unified("/pod");
  put("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  EXPECT_THAT(quota(), Optional(0.5));
}

TEST_F(ControlGroupQuota, WithoutALimitIsNone) {
  unified("/pod");
  put("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(ControlGroupQuota, IsThatOfTheRootOfANamespace) {
  unified("/");
  put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_THAT(quota(), Optional(3.0));
}

TEST_F(ControlGroupQuota, IsTheSmallestUpTheTree) {
  unified("/machine/pod/container");
  put("/sys/fs/cgroup/machine/cpu.max", "800000 100000\n");
  put("/sys/fs/cgroup/machine/pod/cpu.max", "150000 100000\n");
  put("/sys/fs/cgroup/machine/pod/container/cpu.max", "max 100000\n");
  EXPECT_THAT(quota(), Optional(1.5));
  put("/sys/fs/cgroup/machine/cpu.max", "20000 20000\n");
  EXPECT_THAT(quota(), Optional(1.0));
}

TEST_F(ControlGroupQuota, IsThatOfALegacyGroup) {
  legacy("/docker/1f");
  put_legacy("/docker/1f", "250000\n", "100000\n");
  EXPECT_THAT(quota(), Optional(2.5));
  put_legacy("/docker/1f", "-1\n", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  put_legacy("/docker", "50000\n", "50000\n");
  EXPECT_THAT(quota(), Optional(1.0));
}

TEST_F(ControlGroupQuota, IsFoundWhereTheContainersGroupIsMounted) {
  legacy("/docker/1f/inner", "/docker/1f");
  put_legacy("", "200000\n", "100000\n");
  put_legacy("/inner", "-1\n", "100000\n");
  EXPECT_THAT(quota(), Optional(2.0));
  put_legacy("/inner", "70000\n", "100000\n");
  EXPECT_THAT(quota(), Optional(0.7));
}

TEST_F(ControlGroupQuota, IsThatOfTheMountIfTheGroupIsNamedAsOutside) {
  legacy("/kubepods/pod1/2e");  // not there
  put_legacy("", "150000\n", "100000\n");
  EXPECT_THAT(quota(), Optional(1.5));
  legacy("/kubepods/pod1/2e", "/kubepods/pod1/2");  // another group, whose name begins alike
  EXPECT_THAT(quota(), Optional(1.5));
  unified("/../other");
  put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  put("/sys/fs/other/cpu.max", "1000 100000\n");
  EXPECT_THAT(quota(), Optional(1.0));
}

TEST_F(ControlGroupQuota, IsFoundAmongSeveralMounts) {
  put("/proc/self/cgroup", "0::/own\n");
  mounts(
      "30 22 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n"
      "31 22 0:26 / /mnt/all\\040groups rw shared:9 master:1 - cgroup2 cgroup2 rw\n");
  put("/mnt/other/cpu.max", "1000 100000\n");
  put("/mnt/all groups/own/cpu.max", "400000 100000\n");
  EXPECT_THAT(quota(), Optional(4.0));
}

TEST_F(ControlGroupQuota, IsThatOfTheHierarchyThatHasTheController) {
  put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n0::/a\n");
  mounts(
      "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
      "33 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  put_legacy("/a", "20000\n", "10000\n");
  EXPECT_THAT(quota(), Optional(2.0));
}

TEST_F(ControlGroupQuota, IsNoneWhereFilesMakeNoSense) {
  for (const char* text : {"", "\n", "max\n", "50000\n", "x 100000\n", "50000 0\n", "0 100000\n",
                           "50000x 100000\n", "-5 100000\n", "99999999999999999999 100000\n"}) {
    unified("/pod");
    put("/sys/fs/cgroup/pod/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
  for (const char* line : {"", "30", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2",
                           "- - - - - - - cgroup2 a b", "30 22 0:26 / /mnt rw cgroup2 x rw"}) {
    put("/proc/self/mountinfo", line);
    EXPECT_EQ(quota(), std::nullopt) << line;
  }
  put("/proc/self/cgroup", "0:\n:\nnothing");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST(Parallelism, RoundsAQuotaUpAndIsAtLeastOne) {
  EXPECT_EQ(parallelism_of(64, std::nullopt), 64u);
  EXPECT_EQ(parallelism_of(64, 2.0), 2u);
  EXPECT_EQ(parallelism_of(64, 1.01), 2u);
  EXPECT_EQ(parallelism_of(64, 0.5), 1u);
  EXPECT_EQ(parallelism_of(2, 8.0), 2u);
  EXPECT_EQ(parallelism_of(2, 1e30), 2u);
  EXPECT_EQ(parallelism_of(0, std::nullopt), 1u);
}

TEST(Parallelism, IsThatOfTheProcess) {
  EXPECT_EQ(gyre::available_parallelism(), parallelism_of(gyre::detail::usable_cpus().size(),
                                                          gyre::detail::control_group_quota()));
}

// A kernel for 4096 CPUs.
int affinity_of_a_large_machine(::pid_t, std::size_t size, ::cpu_set_t* set) {
  if (size < 4096 / 8) {
    errno = EINVAL;
    return -1;
  }
  CPU_SET_S(3, size, set);
  CPU_SET_S(4095, size, set);
  return 0;
}

TEST(UsableCpus, MayBeMoreThanASetOfFixedSizeHolds) {
  EXPECT_THAT(gyre::detail::usable_cpus(&affinity_of_a_large_machine), ElementsAre(3, 4095));
}

TEST(UsableCpus, AreNoneIfTheyCannotBeTold) {
  const auto refuses = [](int error) {
    static int refusal = 0;
    refusal = error;
    return gyre::detail::usable_cpus([](::pid_t, std::size_t, ::cpu_set_t*) {
      errno = refusal;
      return -1;
    });
  };
  EXPECT_THAT(refuses(EPERM), ElementsAre());
  EXPECT_THAT(refuses(EINVAL), ElementsAre());
}

}  // namespace
}  // namespace available_parallelism_test
