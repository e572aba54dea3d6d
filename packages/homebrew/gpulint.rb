# Installs the binary of the release.
class Gpulint < Formula
  desc "Policy linter and admission webhook for Karpenter, KEDA and GPU workloads"
  homepage "https://gpulint.dev"
  version "@version@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/gpulint/gpulint/releases/download/v@version@/gpulint-aarch64-apple-darwin.tar.gz"
      sha256 "@sha256 gpulint-aarch64-apple-darwin.tar.gz@"
    end
    on_intel do
      url "https://github.com/gpulint/gpulint/releases/download/v@version@/gpulint-x86_64-apple-darwin.tar.gz"
      sha256 "@sha256 gpulint-x86_64-apple-darwin.tar.gz@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/gpulint/gpulint/releases/download/v@version@/gpulint-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@sha256 gpulint-aarch64-unknown-linux-musl.tar.gz@"
    end
    on_intel do
      url "https://github.com/gpulint/gpulint/releases/download/v@version@/gpulint-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@sha256 gpulint-x86_64-unknown-linux-musl.tar.gz@"
    end
  end

  def install
    bin.install "gpulint"
    generate_completions_from_executable(bin/"gpulint", "completions")
    (man1/"gpulint.1").write Utils.safe_popen_read(bin/"gpulint", "man")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gpulint --version")
    assert_match "gpu-pool-untainted", shell_output("#{bin}/gpulint explain gpu-pool-untainted")
  end
end
