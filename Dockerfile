# A small image for the admission webhook, and for `gpulint check` in pipelines: one static binary, nobody's root.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin gpulint

FROM scratch
COPY --from=build /src/target/release/gpulint /gpulint
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/gpulint"]
