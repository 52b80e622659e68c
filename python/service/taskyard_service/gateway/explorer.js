// Fetches the document with the token that the person gave, and shows it. The token stays in this page's memory.
"use strict";

const problem = document.getElementById("problem");

async function fetchDocument(authorization) {
  const answer = await fetch("/api/v1/openapi.json", { headers: { authorization } });
  const body = await answer.json();
  if (!answer.ok) {
    throw new Error(body.message);
  }
  return body;
}

document.getElementById("open").addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  const authorization = `Bearer ${document.getElementById("token").value.trim()}`;
  try {
    const spec = await fetchDocument(authorization);
    SwaggerUIBundle({
      spec,
      dom_id: "#explorer",
      deepLinking: true,
      tryItOutEnabled: true,
      // The page of the validator would be asked on somebody else's machine.
      validatorUrl: null,
      requestInterceptor: (request) => {
        request.headers.authorization = authorization;
        return request;
      },
    });
  } catch (error) {
    problem.textContent = error.message;
  }
});
