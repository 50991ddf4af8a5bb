package main

// dockerfileServer works on files of our own: it looks at one at a time.
var dockerfileServer = Server{
	Name: "dockerfile", Command: []string{"docker-langserver", "--stdio"}, OpenAsked: true,
	Project: dockerfiles,
	Small:   &dockerfiles,
	Grammar: Grammar{
		Edit: []string{"**/Dockerfile", "**/*.dockerfile"},
		Rules: []Rule{
			{"rename a stage", `(?m) AS (\w+)$`, []string{` AS ${1}§`, ` AS `}},
			{"misspell an instruction", `(?m)^(RUN|COPY|ENV|USER) `, []string{`${1}X `, `run `}},
			{"drop an argument", `(?m)^(\w+) \S+`, []string{`$1`}},
			{"drop a line", `(?m)^\w.*\n`, []string{``}},
			{"twice", `(?m)^(CMD|ENTRYPOINT) .*\n`, []string{"$0$0"}},
			{"single quotes", `"`, []string{`'`, ``}},
			{"a port out of range", `(?m)^EXPOSE \d+`, []string{`EXPOSE 9999§`, `EXPOSE x§`}},
			{"an unknown flag", `(?m)^(COPY|FROM) `, []string{`$1 --none§ `}},
			{"a relative directory", `(?m)^WORKDIR /`, []string{`WORKDIR `}},
			{"a comment", `(?m)^RUN `, []string{"# Changed §.\nRUN ", "MAINTAINER who§\nRUN "}},
		},
		New: []NewFile{
			{"oracle§.dockerfile", `^`, "FROM scratch\nCOPY x\n"},
			{"oracle§/Dockerfile", `(?m)^FROM (\S+)`, "FROM $1\nEXPOSE §\nRUNN §\n"},
		},
	},
}

var dockerfiles = Project{Files: map[string]string{
	"Dockerfile": `# syntax=docker/dockerfile:1
ARG GO_VERSION=1.26
FROM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN go build -trimpath \
    -o /out/server ./cmd/server

FROM build AS test
RUN go test ./...

FROM gcr.io/distroless/static AS final
COPY --from=build /out/server /server
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s CMD ["/server", "-check"]
ENTRYPOINT ["/server"]
CMD ["-listen", ":8080"]
`,
	"web/Dockerfile": `FROM node:20 AS assets
WORKDIR /app
ENV NODE_ENV=production PORT=3000
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build
ONBUILD RUN echo later

FROM nginx:1
LABEL maintainer="someone" version="1"
COPY --from=assets /app/dist /usr/share/nginx/html
VOLUME ["/var/cache/nginx"]
EXPOSE 80 443
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
`,
	"tools/lint.dockerfile": `FROM python:3.11-slim AS lint
SHELL ["/bin/bash", "-c"]
RUN pip install --no-cache-dir black mypy && \
    rm -rf /tmp/*
WORKDIR /code
ADD https://example.test/config.toml /etc/config.toml
USER nobody
CMD ["mypy", "."]
`,
}}
