#include "agent/kubelet_api/sandbox/process.h"

#include <gtest/gtest.h>

#include "agent/kubelet_api/sandbox/tar_stream.h"
#include "agent/kubelet_api/test_backend.h"

namespace ghostfleet::kubelet_api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kStart{1767607200000000000};

class Client final : public Outside {
 public:
  bool write(int fd, std::string bytes) override {
    (fd == 2 ? err : out) += bytes;
    return true;
  }
  size_t backlog() const override { return stuck; }
  void when_drained(size_t, std::function<void()> callback) override { drained = std::move(callback); }
  void exited(int c) override { code = c; }
  void failed(const std::string& why) override { failure = why; }
  std::string out, err, failure;
  int code = -1;
  size_t stuck = 0;
  std::function<void()> drained;
};

class Sandbox : public ::testing::Test {
 protected:
  Sandbox() {
    pod = *kube::parse_json(R"({"metadata":{"name":"p","namespace":"default","uid":"uid-1","labels":{"app":"web"},
      "annotations":{"files.ghostfleet.dev/c":"{\"/data/a.txt\":\"one\\ntwo\\n\"}",
                     "exec.ghostfleet.dev/c":"{\"nginx -v\":{\"stderr\":\"nginx/1.27\\n\",\"exit\":3}}"}},
      "spec":{"containers":[{"name":"c","env":[{"name":"MODE","value":"fast"},
        {"name":"APP","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}},
        {"name":"KEY","valueFrom":{"configMapKeyRef":{"name":"m","key":"k"}}}],
        "volumeMounts":[{"name":"api","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"},{"name":"m","mountPath":"/config"}]}],
        "volumes":[{"name":"api","projected":{"sources":[{"serviceAccountToken":{"path":"token"}},
          {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"fieldPath":"metadata.namespace"}}]}}]}},
          {"name":"m","configMap":{"name":"m"}}]}})");
    maps["m"] = *kube::parse_json(R"({"data":{"k":"v","file.conf":"x=1\n"}})");
    view = test_pod(kStart);
  }
  std::unique_ptr<Process> begin(std::vector<std::string> argv, bool in = false, bool tty = false) {
    client = Client();
    Machine machine = make_machine(backend.node(0), view, view.containers[0], pod, maps);
    if (!files) {
      files = std::make_shared<FileSystem>();
      provide_files(machine, pod, maps, files.get());
    }
    auto process = std::make_unique<Process>(std::move(machine), files, ProcessOptions{std::move(argv), in, tty},
                                             &client, clock, timers);
    process->start();
    return process;
  }
  // Output and, when it is not 0, the exit code.
  std::string run(std::vector<std::string> argv) {
    const auto process = begin(std::move(argv));
    timers->run(seconds(30));
    return client.out + client.err + client.failure + (client.code > 0 ? "=" + std::to_string(client.code) : "");
  }
  std::string sh(const std::string& script) { return run({"sh", "-c", script}); }

  kube::Json pod;
  ConfigMaps maps;
  agent::PodView view;
  ManualClock clock{kStart};
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  TestBackend backend{*timers};
  std::shared_ptr<FileSystem> files;
  Client client;
};

TEST_F(Sandbox, SimpleCommands) {
  EXPECT_EQ(run({"echo", "hello", "world"}), "hello world\n");
  EXPECT_EQ(run({"printf", "%s-%03d\\n", "a", "7"}), "a-007\n");
  EXPECT_EQ(run({"hostname"}), "p\n");
  EXPECT_EQ(run({"pwd"}), "/\n");
  EXPECT_EQ(run({"true"}), "");
  EXPECT_EQ(run({"false"}), "=1");
  EXPECT_EQ(run({"id", "-u"}), "0\n");
  EXPECT_EQ(run({"date", "+%Y-%m-%d"}), "2026-01-05\n");
  EXPECT_EQ(run({"/bin/echo", "x"}), "x\n");
  EXPECT_EQ(run({"printenv", "MODE"}), "fast\n");
  EXPECT_NE(run({"env"}).find("APP=web\nHOME=/root\nHOSTNAME=p\nKEY=v\nMODE=fast\n"), std::string::npos);
}

TEST_F(Sandbox, WhatIsNotThereIsSaidAsARuntimeSays) {
  EXPECT_EQ(run({"nosuch"}), "exec: \"nosuch\": executable file not found in $PATH");
  EXPECT_EQ(client.code, -1);
  EXPECT_EQ(sh("nosuch"), "sh: nosuch: not found\n=127");
  EXPECT_EQ(run({"/opt/x"}), "exec: \"/opt/x\": stat /opt/x: no such file or directory");
  EXPECT_EQ(run({"nginx", "-v"}), "nginx/1.27\n=3");
}

TEST_F(Sandbox, Files) {
  EXPECT_EQ(run({"cat", "/data/a.txt"}), "one\ntwo\n");
  EXPECT_EQ(run({"cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"}), "default");
  EXPECT_EQ(run({"cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
            "cat: /var/run/secrets/kubernetes.io/serviceaccount/token: Permission denied\n=1");
  EXPECT_EQ(run({"cat", "/config/file.conf"}), "x=1\n");
  EXPECT_EQ(run({"cat", "/etc/hostname"}), "p\n");
  EXPECT_EQ(run({"ls", "/config"}), "file.conf\nk\n");
  EXPECT_EQ(run({"ls", "/none"}), "ls: /none: No such file or directory\n=1");
  EXPECT_EQ(sh("echo x > /config/y"), "sh: can't create /config/y: Read-only file system\n=1");
  EXPECT_EQ(
      sh("mkdir -p /tmp/a/b && echo one > /tmp/a/b/f && echo two >> /tmp/a/b/f; cat /tmp/a/b/f; wc -l /tmp/a/b/f"),
      "one\ntwo\n2 /tmp/a/b/f\n");
  EXPECT_EQ(run({"cat", "/tmp/a/b/f"}), "one\ntwo\n");  // the next session sees it
}

TEST_F(Sandbox, ShellLanguage) {
  EXPECT_EQ(sh("echo a; echo b && false || echo c"), "a\nb\nc\n");
  EXPECT_EQ(sh("exit 7"), "=7");
  EXPECT_EQ(sh("X='a  b'; echo \"$X\" $X; echo ${Y:-none} ${#X}"), "a  b a b\nnone 4\n");
  EXPECT_EQ(sh("echo one two | wc -w"), "2\n");
  EXPECT_EQ(sh("for i in 1 2 3; do echo $i; done | tail -n 1"), "3\n");
  EXPECT_EQ(sh("if [ -d /tmp ]; then echo dir; else echo no; fi"), "dir\n");
  EXPECT_EQ(sh("echo $(hostname)-$MODE `pwd`"), "p-fast /\n");
  EXPECT_EQ(sh("false; echo $?"), "1\n");
  EXPECT_EQ(sh("cd /data && cat < a.txt | head -n 1"), "one\n");
  EXPECT_EQ(sh("cat /none 2>/dev/null || echo failed"), "failed\n");
  EXPECT_EQ(sh("(cd /tmp; pwd); pwd"), "/tmp\n/\n");
  EXPECT_EQ(sh("echo out; echo err >&2"), "out\nerr\n");
  EXPECT_EQ(client.err, "err\n");
  EXPECT_EQ(sh("cat /none 2>&1 | wc -l"), "1\n");
  EXPECT_EQ(sh("echo 'it''s' \\$HOME \"\\\"q\\\"\""), "its $HOME \"q\"\n");
  EXPECT_EQ(sh("f() { echo in $1; }; f x"), "in x\n");
  EXPECT_EQ(sh("echo 'unclosed"), "sh: syntax error, or something this shell does not know\n=2");
}

TEST_F(Sandbox, Case) {
  EXPECT_EQ(sh("case web-1 in db-*) echo db;; web-[0-9]|other) echo web;; *) echo none;; esac"), "web\n");
  EXPECT_EQ(sh("case $MODE in slow) echo slow\n;;\n(f*) echo starts with f\nesac"), "starts with f\n");
  EXPECT_EQ(sh("case '*' in a) echo a;; '*') echo star;; esac; case x in y) ;; esac; echo $?"), "star\n0\n");
  EXPECT_EQ(sh("for i in 1 2 3; do case $i in 2) continue;; esac; echo $i; done"), "1\n3\n");
}

TEST_F(Sandbox, HereDocuments) {
  EXPECT_EQ(sh("X=1\ncat <<EOF\n$X \"q\" \\$X $(hostname) `pwd` $((X+1))\nEOF\necho end"), "1 \"q\" $X p / 2\nend\n");
  EXPECT_EQ(sh("cat <<'EOF'\n$X `pwd`\nEOF"), "$X `pwd`\n");
  EXPECT_EQ(sh("cat <<-E | tail -n 1\n\tone\n\ttwo\n\tE"), "two\n");
  EXPECT_EQ(sh("cat > /tmp/doc <<E\nx\nE\ncat /tmp/doc"), "x\n");
  EXPECT_EQ(sh("while read a b; do echo $b-$a; done <<E\n1 2\n3 4\nE"), "2-1\n4-3\n");
  EXPECT_EQ(sh("{ echo a; echo b; } > /tmp/both; (echo c) >> /tmp/both; cat /tmp/both"), "a\nb\nc\n");
  EXPECT_EQ(sh("if true; then echo x; nosuch; fi 2> /tmp/err; cat /tmp/err"), "x\nsh: nosuch: not found\n");
  EXPECT_EQ(sh("cat <<E\nwithout end"), "sh: syntax error, or something this shell does not know\n=2");
}

TEST_F(Sandbox, ParameterExpansion) {
  EXPECT_EQ(sh("E=; echo ${E:-a}${E-b}${U:-c}${U-d} ${E:+e}${MODE:+f} ${MODE:-g}"), "acd f fast\n");
  EXPECT_EQ(sh("echo ${N:=new} $N; echo ${U:-$(hostname) ${MODE}}"), "new new\np fast\n");
  EXPECT_EQ(sh("F=/a/b.tar.gz; echo ${F##*/} ${F%/*} ${F%.*} ${F%%.*} ${F#*.} ${#F}"),
            "b.tar.gz /a /a/b.tar /a/b tar.gz 11\n");
  EXPECT_EQ(sh("P='*'; F=a*b; echo ${F%\"$P\"b} ${F%$P}"), "a a*b\n");
  EXPECT_EQ(sh("echo ${U:?is needed}; echo next"), "sh: U: is needed\n=2");
  EXPECT_EQ(sh("echo ${U/x/y}; echo next"), "next\nsh: syntax error: bad substitution\n");
}

TEST_F(Sandbox, FunctionsHaveParametersAndLocalVariables) {
  EXPECT_EQ(
      sh("f() { local x=in; echo $# $1 \"$2\" $x; shift; echo $1; return 4; }; x=out; f a 'b  c'; echo $? $x [$1]"),
      "2 a b  c in\nb c\n4 out []\n");
  EXPECT_EQ(sh("f() { for i in \"$@\"; do echo \"<$i>\"; done; for i; do :; done; echo $i; }; f a 'b c'"),
            "<a>\n<b c>\nb c\n");
  EXPECT_EQ(run({"sh", "-c", "echo $1-$2; set -- x; echo $1 $#", "name", "one", "two"}), "one-two\nx 1\n");
}

TEST_F(Sandbox, WordsThatGrowWithoutEndAreCut) {
  EXPECT_EQ(sh("x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do x=$x$x; done; "
               "[ ${#x} -le 1048576 ] && echo bounded"),
            "bounded\n");
}

TEST_F(Sandbox, Arithmetic) {
  EXPECT_EQ(sh("echo $((1 + 2 * 3)) $(( $(echo 4) + X )) \"$((2 > 1))\""), "7 4 1\n");
  EXPECT_EQ(sh("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i"), "3\n");
  EXPECT_EQ(sh("echo $((1 +)); echo next"), "next\nsh: arithmetic syntax error\n");
  EXPECT_EQ(sh("echo $((1 / 0))"), "sh: divide by zero\n=2");
  EXPECT_EQ(sh("echo $( (echo a); (echo b) )"), "a b\n");
}

TEST_F(Sandbox, LinesAndFiles) {
  EXPECT_EQ(run({"sed", "-n", "2p", "/data/a.txt"}), "two\n");
  EXPECT_EQ(sh("sed -e s/o/0/ -e 2d /data/a.txt"), "0ne\n");
  EXPECT_EQ(sh("echo a-b | sed -E 's/(a)-(b)/\\2-\\1/'"), "b-a\n");
  EXPECT_EQ(sh("cp /data/a.txt /tmp/x; sed -i 's/one/1/' /tmp/x; cat /tmp/x"), "1\ntwo\n");
  EXPECT_EQ(sh("sed s/a"), "sed: unterminated `s' command\n=1");
  EXPECT_EQ(sh("echo a:b:c | cut -d: -f1,3"), "a:c\n");
  EXPECT_EQ(sh("echo abcdef | cut -c 2-3,5-"), "bcef\n");
  EXPECT_EQ(sh("echo abc | cut -f x"), "cut: a list such as -f1,3-5 is expected, not 'x'\n=1");
  EXPECT_EQ(sh("grep -n '^t' /data/a.txt; echo x1y | grep -o '[0-9]'"), "2:two\n1\n");
  EXPECT_EQ(sh("grep -q one /data/a.txt && grep -c -v one /data/a.txt"), "1\n");
  EXPECT_EQ(sh("printf '10\\n9\\n' | sort -n"), "9\n10\n");
  EXPECT_EQ(sh("find /data -type f"), "/data/a.txt\n");
  EXPECT_EQ(sh("cd /; find data -name '*.txt'"), "data/a.txt\n");
  EXPECT_EQ(sh("mkdir -p /tmp/d/e; touch /tmp/d/f; cd /tmp/d; find . -maxdepth 1 ! -name e"), ".\n./f\n");
  EXPECT_EQ(sh("find /none; find /tmp -exec true"),
            "find: /none: No such file or directory\nfind: -exec true: not known here\n=1");
}

TEST_F(Sandbox, SleepTakesItsTimeAndALoopRests) {
  const auto process = begin({"sh", "-c", "echo a; sleep 5; echo b"});
  EXPECT_EQ(client.out, "a\n");
  timers->run(seconds(4));
  EXPECT_EQ(client.code, -1);
  timers->run(seconds(2));
  EXPECT_EQ(client.out, "a\nb\n");
  EXPECT_EQ(client.code, 0);
  const auto endless = begin({"sh", "-c", "while true; do echo y; done"});
  timers->run(seconds(1));
  EXPECT_GT(client.out.size(), 100u);
  EXPECT_LT(client.out.size(), 20000u);
}

TEST_F(Sandbox, ASlowReaderIsWaitedFor) {
  const auto process = begin({"sh", "-c", "while true; do echo y; done"});
  client.stuck = Process::kHighWater + 1;
  timers->run(seconds(1));
  const size_t before = client.out.size();
  timers->run(seconds(10));
  EXPECT_EQ(client.out.size(), before);
  client.stuck = 0;
  ASSERT_TRUE(client.drained);
  std::exchange(client.drained, nullptr)();
  EXPECT_GT(client.out.size(), before);
}

TEST_F(Sandbox, InputGoesThrough) {
  const auto process = begin({"cat"}, true);
  process->on_stdin("ab");
  EXPECT_EQ(client.out, "ab");
  process->on_stdin("c\n");
  process->on_stdin_end();
  EXPECT_EQ(client.out, "abc\n");
  EXPECT_EQ(client.code, 0);
  const auto script = begin({"sh"}, true);
  script->on_stdin("echo one\nexit 4\n");
  EXPECT_EQ(client.out, "one\n");
  EXPECT_EQ(client.code, 4);
}

TEST_F(Sandbox, ATerminalEchoesEditsAndPrompts) {
  const auto process = begin({"sh"}, true, true);
  EXPECT_EQ(client.out, "/ # ");
  process->on_resize(100, 40);
  process->on_stdin("ehco");
  process->on_stdin("\x7f\x7f\x7f");
  process->on_stdin("cho hi\r");
  EXPECT_EQ(client.out, "/ # ehco\b \b\b \b\b \bcho hi\r\nhi\r\n/ # ");
  client.out.clear();
  process->on_stdin("stty size\rsleep 100\r");
  EXPECT_NE(client.out.find("40 100\r\n"), std::string::npos);
  process->on_stdin("\x03");
  EXPECT_TRUE(client.out.ends_with("^C\r\n/ # ")) << client.out;
  process->on_stdin("\x1b[A");  // an arrow
  process->on_stdin("\x04");
  EXPECT_EQ(client.code, 130);
}

TEST_F(Sandbox, DevicesOfTheNode) {
  EXPECT_TRUE(run({"nvidia-smi", "-L"}).starts_with("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-"));
  EXPECT_EQ(run({"nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"}),
            "0, 81920\n1, 81920\n");
  EXPECT_NE(run({"nvidia-smi"}).find("H100"), std::string::npos);
  const auto devices = kube::parse_json(run({"neuron-ls", "-j"}));
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->get_array().size(), 2u);
  EXPECT_NE(run({"neuron-ls"}).find("| NEURON | NEURON |"), std::string::npos);
  view.containers[0].devices = {{"u", "c", "nvidia.com/gpu", {{"GPU-7::0", true, 0}, {"GPU-7::3", true, 0}}}};
  view.containers[0].given.envs = {{"NVIDIA_VISIBLE_DEVICES", "GPU-7"}};
  view.containers[0].given.nodes = {{"/dev/neuron5", "/dev/neuron5", "rw"}};
  EXPECT_EQ(run({"nvidia-smi", "-L"}), "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-7)\n");
  EXPECT_EQ(run({"sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"}), "GPU-7\n");
  EXPECT_EQ(kube::get_int(kube::parse_json(run({"neuron-ls", "-j"}))->get_array().at(0), "neuron_device"), 5);
  view.containers[0].devices = {{"u", "c", "nvidia.com/mig-1g.10gb", {{"MIG-1", true, 0}}}};
  EXPECT_NE(run({"nvidia-smi", "-L"}).find("  MIG 1g.10gb      Device  0: (UUID: MIG-1)\n"), std::string::npos);
  view.containers[0].devices = {};
  view.containers[0].given = {};
  view.containers[0].resources = "{}";
  EXPECT_EQ(run({"nvidia-smi"}), "exec: \"nvidia-smi\": executable file not found in $PATH");
}

TEST_F(Sandbox, TarMovesFilesBothWays) {
  const auto out = begin({"tar", "cf", "-", "/data"});
  timers->run(seconds(1));
  EXPECT_EQ(client.code, 0);
  const std::string archive = client.out;
  EXPECT_EQ(tar_list(archive), (std::vector<std::string>{"data/", "data/a.txt"}));
  const auto in = begin({"tar", "-xmf", "-", "-C", "/tmp"}, true);
  for (size_t at = 0; at < archive.size(); at += 700) in->on_stdin(std::string_view(archive).substr(at, 700));
  in->on_stdin_end();
  EXPECT_EQ(client.code, 0);
  EXPECT_EQ(run({"cat", "/tmp/data/a.txt"}), "one\ntwo\n");
  const auto broken = begin({"tar", "xf", "-"}, true);
  broken->on_stdin("no archive at all");
  broken->on_stdin_end();
  EXPECT_EQ(client.code, 2);
}

TEST(FileSystem, LimitsAreKept) {
  FileSystem files;
  EXPECT_EQ(files.write("/a", std::string(FileSystem::kMaxBytes, 'x'), false, kStart), FileError::kOk);
  EXPECT_EQ(files.write("/a", "x", true, kStart), FileError::kNoSpace);
  EXPECT_EQ(files.write("/b", "x", false, kStart), FileError::kNoSpace);
  EXPECT_EQ(files.remove("/a", false), FileError::kOk);
  EXPECT_EQ(files.write("/b", "x", false, kStart), FileError::kOk);
  EXPECT_EQ(files.write("/none/b", "x", false, kStart), FileError::kNoEntry);
  EXPECT_EQ(FileSystem::resolve("/a/b", "../../../c/./d"), "/c/d");
}

TEST(Tar, NamesThatLeaveTheDirectoryStayInIt) {
  FileSystem from;
  ASSERT_EQ(from.make_directory("/d", true, kStart), FileError::kOk);
  ASSERT_EQ(from.write("/d/" + std::string(150, 'n'), "long", false, kStart), FileError::kOk);
  std::string archive;
  EXPECT_EQ(tar_create({"/d"}, "/", from, &archive), "");
  FileSystem to;
  EXPECT_EQ(tar_extract(archive, "/", kStart, &to), "");
  EXPECT_NE(to.find("/d/" + std::string(150, 'n')), nullptr);
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
