# A small image for the admission webhook, and for `gpulint check` in pipelines: one static binary, nobody's root.
#
#   docker build -t gpulint .                                          builds the binary
#   docker build -t gpulint --target prebuilt -f Dockerfile FOLDER     uses FOLDER/gpulint-linux-amd64 (or -arm64)
FROM scratch AS image
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/gpulint"]

FROM image AS prebuilt
ARG TARGETARCH
COPY gpulint-linux-${TARGETARCH} /gpulint

FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin gpulint

FROM image
COPY --from=build /src/target/dist/gpulint /gpulint
